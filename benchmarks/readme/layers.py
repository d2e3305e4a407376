"""Recurrent nets, the grid net and the graph convolution beside the loops and packages that people use."""

from typing import Any

from readme.attention import QUARTILES
from readme.place import measured_on, rows_and_columns, shown


def recurrent_gpu(result: dict[str, Any]) -> list[str]:
    """How many times faster than each peer, then times by size and layer, eager and captured in a CUDA graph."""
    faster: dict[str, dict[str, str]] = {}
    times: dict[str, dict[str, str]] = {}
    for row in result["parts"].values():
        size = f"{row['B']}, {row['T']:,}, {row['H']}; {row['precision']}"
        for pair, found in row["times_faster"].items():
            faster[f"{size}; {pair}"] = {mode: shown(ratio) for mode, ratio in found.items()}
        for layer, found in row["ms"].items():
            kernel = row["kernels"].get(layer, "cuDNN" if layer.startswith("nn.") else "torch")
            error = f"{row['errors'][layer]:.0e}" if layer in row["errors"] else ""
            times[f"{size}; {layer}"] = {"kernel": kernel, "error": error} | {
                mode: shown(taken) for mode, taken in found.items()
            }
    return [
        f"{measured_on(result)} {result['settings']['turns']} turns. {QUARTILES}. Error is the largest against "
        "float64, of states and gradients over 64 steps. float32 is full precision on both sides; under TF32 cuDNN and "
        "matrix products may round to it, as cuDNN does by default.",
        "",
        *rows_and_columns("B, T, H; precision; the peer's time / ours", faster),
        "",
        *rows_and_columns("B, T, H; precision; layer, milliseconds", times),
    ]


def grid(result: dict[str, Any]) -> list[str]:
    """How many times faster than the best peer, then the times of all."""
    faster: dict[str, dict[str, str]] = {}
    times: dict[str, dict[str, str]] = {}
    for row in result["parts"].values():
        size = f"{row['Y']} x {row['X']}, batch {row['B']}, hidden {row['H']}, {row['dtype']}"
        faster[size] = {"ms a diagonal": f"{row['ms_a_diagonal']:.3f}"}
        for way, found in row["compared"].items():
            faster[size] |= {
                f"{way}: times faster": shown(found["times_faster"]),
                f"{way}: best peer": found["best_peer"],
            }
        times[size] = {way: shown(taken) for way, taken in row["ms"].items()}
    return [
        f"{measured_on(result)} Forward and backward, {result['settings']['turns']} turns. {QUARTILES}.",
        "",
        *rows_and_columns("image", faster),
        "",
        *rows_and_columns("image; milliseconds", times),
    ]


def graphs(result: dict[str, Any]) -> list[str]:
    """All trainings on Cora, then an epoch on the large graph where one was measured."""
    lines = [measured_on(result)]
    if cora := result["parts"].get("cora"):
        for way, found in cora["compared"].items():
            lines += [
                "",
                f"On Cora the fastest peer, {found['best_peer'].removeprefix('peer, ')}, takes "
                f"{shown(found['times_faster'])} times as long as {way}.",
            ]
        cells = {
            way: {
                f"seconds for {cora['epochs']} epochs": shown(found["seconds"]),
                "test accuracy": f"{found['accuracy']:.3f}",
                "deviation": "" if found["deviation"] is None else f"{found['deviation']:.3f}",
            }
            for way, found in cora["ways"].items()
        }
        lines += ["", *rows_and_columns(f"Cora, {cora['turns']} seeds; {QUARTILES.lower()}", cells)]
        lines += [f"\n{way} could not be run: {reason}." for way, reason in cora["refused"].items()]
    return [*lines, *_large(result["parts"])] if "large sizes" in result["parts"] else lines


def _large(parts: dict[str, Any]) -> list[str]:
    sizes = parts["large sizes"]
    ways = {name.removeprefix("large: "): found for name, found in parts.items() if name.startswith("large: ")}
    peers = [found for way, found in ways.items() if way.startswith("peer")]
    fastest = min((found["seconds"]["median"] for found in peers), default=None)
    smallest = min((found["peak_bytes"] for found in peers), default=None)
    cells: dict[str, dict[str, str]] = {}
    for way, found in ways.items():
        cells[way] = {}
        if fastest and smallest and way.startswith("ours"):
            cells[way]["times faster than the fastest peer"] = f"{fastest / found['seconds']['median']:.2f}"
            cells[way]["memory of the smallest peer"] = f"{found['peak_bytes'] / smallest:.2f}"
        cells[way]["seconds an epoch"] = shown(found["seconds"])
        cells[way]["peak, GB"] = f"{found['peak_bytes'] / 1e9:.2f}"
    size = f"{sizes['N']:,} nodes, {sizes['E']:,} edges, {sizes['D']} dense features, one way after the other"
    return ["", *rows_and_columns(size, cells)]

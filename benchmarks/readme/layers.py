"""Recurrent nets, the grid net and the graph convolution beside the loops and packages that people use."""

from typing import Any

from readme.place import machine


def recurrent_gpu(result: dict[str, Any]) -> list[str]:
    """Times by size and layer, of eager calls and captured in a CUDA graph."""
    lines = [
        f"{machine(result)} Milliseconds; error is the largest against float64, of states and gradients over 64 steps.",
        "",
        "| B, T, H | type | layer | kernel | error "
        "| eager, forward | with backward | captured, forward | with backward |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for row in result["results"]:
        error = f"{row['error']:.0e}" if "error" in row else ""
        times = " | ".join(
            f"{row[f'{mode}{part}_ms']:.3f}" for mode in ("", "captured_") for part in ("forward", "both")
        )
        size = f"{row['B']}, {row['T']:,}, {row['H']} | {row['dtype']}"
        lines.append(f"| {size} | {row['layer']} | {row['kernel']} | {error} | {times} |")
    return lines


def grid(result: dict[str, Any]) -> list[str]:
    """Times by size, a diagonal's share, and how many times faster than a loop over pixels where that was timed."""
    lines = [
        f"{machine(result)} Forward and backward, milliseconds.",
        "",
        "| image | batch | hidden | type | by diagonals | a diagonal | pixel by pixel | times faster |",
        "|---|---:|---:|---|---:|---:|---:|---:|",
    ]
    for row in result["results"]:
        loop = f"{row['pixels_ms']:,.1f} | {row['times_faster']:.1f}" if "pixels_ms" in row else " | "
        size = f"{row['Y']} x {row['X']} | {row['B']} | {row['H']} | {row['dtype']}"
        lines.append(f"| {size} | {row['diagonals_ms']:,.2f} | {row['ms_a_diagonal']:.3f} | {loop} |")
    return lines


def graphs(result: dict[str, Any]) -> list[str]:
    """Both trainings on Cora, then an epoch on the large graph where one was measured."""
    cora = result["cora"]
    lines = [
        f"{machine(result)} {cora['epochs']} epochs on Cora, {cora['turns']} seeds each.",
        "",
        "| Cora | seconds | test accuracy | deviation |",
        "|---|---:|---:|---:|",
    ]
    for way, name in (("ours", "Porism"), ("peer", "PyTorch Geometric")):
        if way in cora:
            found = cora[way]
            lines.append(f"| {name} | {found['seconds']:.3f} | {found['accuracy']:.3f} | {found['deviation']:.3f} |")
    if "times_faster" in cora:
        lines += ["", f"{cora['times_faster']:.1f} times faster."]
    return [*lines, *_large(result["large"])] if "large" in result else lines


def _large(large: dict[str, Any]) -> list[str]:
    sizes = large["sizes"]
    lines = [
        "",
        f"| {sizes['N']:,} nodes, {sizes['E']:,} edges, {sizes['D']} features | seconds an epoch | peak, GB | "
        "times faster than the fastest peer | memory of the smallest peer |",
        "|---|---:|---:|---:|---:|",
    ]
    for way, found in large["ways"].items():
        compared = large["compared"].get(way)
        ratios = f"{compared['times_faster']:.2f} | {compared['memory_of_smallest_peer']:.2f}" if compared else " | "
        lines.append(f"| {way} | {found['seconds']:.2f} | {found['peak_bytes'] / 1e9:.2f} | {ratios} |")
    return lines

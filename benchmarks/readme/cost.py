"""Counts beside those of other counters, and predicted times beside measured ones."""

from typing import Any

from readme.place import measured_on


def counters(result: dict[str, Any]) -> list[str]:
    """The tallies, then every case: the forward pass by all counters, the backward pass by those that count it."""
    rows = result["rows"]
    forward, backward = (list(rows[0][passed]["ratios"]) for passed in ("forward", "backward"))
    packages = ", ".join(f"{name} {version}" for name, version in result["versions"].items() if name != "porism")
    hardware = result["hardware"]
    lines = [f"Counted on {hardware['gpu'] or 'a CPU, ' + hardware['cpu'] + ','} with {packages}."]
    for which, title in (("alike", "cases that every convention counts alike"), ("all", "all cases")):
        tally = result["tally"][which]
        heads = ["forward exact", "off by two times or more", "backward exact", "off"]
        lines += ["", f"| {tally['cases']} {title} | {' | '.join(heads)} |", "|---|---:|---:|---:|---:|"]
        for name in forward:
            there, back = tally["forward"][name], tally["backward"].get(name, {"exact": "-", "off_by_two": "-"})
            numbers = there["exact"], there["off_by_two"], back["exact"], back["off_by_two"]
            lines.append(f"| {name} | {' | '.join(map(str, numbers))} |")
    heads = ["case", "conventions differ", "forward", *forward, "backward", *(f"{name}, back" for name in backward)]
    lines += ["", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        cells = [
            cell
            for passed in ("forward", "backward")
            for cell in (row[passed]["formula"], *row[passed]["ratios"].values())
        ]
        lines.append(f"| {' | '.join([row['case'], row['convention'], *cells])} |")
    return lines


def counters_by_device(result: dict[str, Any]) -> list[str]:
    """On another device: the tallies alone, the cases are in the JSON."""
    lines = counters(result)
    return lines[: lines.index("", lines.index("", lines.index("") + 1) + 1)]


def roofline(result: dict[str, Any]) -> list[str]:
    """Predicted over measured time of every layer, a column a size."""
    sizes = list(dict.fromkeys(found["size"] for found in result["results"]))
    layers: dict[str, dict[str, dict[str, Any]]] = {}
    for found in result["results"]:
        layers.setdefault(found["layer"], {})[found["size"]] = found
    lines = [
        f"{measured_on(result)} {result['dtype']}, median error {100 * result['median_error']:.1f} %, "
        f"every case within {result['worst_factor']:.2f} times.",
        "",
        f"| predicted / measured (bound by) | {' | '.join(sizes)} |",
        f"|---|{'---:|' * len(sizes)}",
    ]
    for layer, by_size in layers.items():
        cells = [f"{by_size[size]['ratio']:.2f} ({by_size[size]['bound']})" for size in sizes]
        lines.append(f"| {layer} | {' | '.join(cells)} |")
    return lines

"""A drawing made part of a page: it takes the page's colours, and keeps its ids to itself.

Everything is drawn in colours that stand for a role. Here each is exchanged for `currentColor` or a variable of the
page's style sheet, so that one drawing serves light, dark and print.
"""

import re
from collections.abc import Mapping
from html import escape

INK, PAPER = "#010203", "#010204"
SERIES = 12
"""How many colours the style sheet has for runs; the thirteenth starts again with the first."""


def series(number: int) -> int:
    """The place in the palette of the run with this number, from 1 on."""
    return (number - 1) % SERIES + 1


def role(number: int) -> str:
    """The colour to draw the run with this number in."""
    return f"#0100{series(number):02x}"


def gid(number: int, what: str) -> str:
    """The id of a part of the drawing that belongs to a run, so that pointing at it tells which."""
    return f"run-{number}-{what}"


def adopt(svg: str, title: str, names: Mapping[int, str], prefix: str) -> str:
    """The drawing without prologue and metadata, under a title for those who cannot see it, its ids prefixed."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    view = re.search(r'viewBox="[^"]*"', svg)
    head = f'<svg {view.group() if view else ""} role="img" aria-label="{escape(title)}">'
    svg = re.sub(r"<svg[^>]*>", lambda _: head, svg, count=1)
    svg = svg.replace("xlink:href=", "href=")
    svg = re.sub(
        r'<g id="run-(\d+)-(\w+)">',
        lambda found: f"{found.group()}<title>{escape(names[int(found.group(1))])} ({found.group(2)})</title>",
        svg,
    )
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg)
    svg = re.sub(r"#0100([0-9a-f]{2})", lambda found: f"var(--series-{int(found.group(1), 16)})", svg)
    return svg.replace(INK, "currentColor").replace(PAPER, "var(--paper)")

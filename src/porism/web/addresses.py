"""Addresses of the rooms: what a link says, and a line for each part of it that cannot be read."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from porism.errors import nearest
from porism.web.catalogue import KINDS, Catalogue

FIRST_PICKED = ("attention", "window", "taylor")
MOST_PICKED = 8
MOST_DIGITS = 30


@dataclass
class Address:
    """What was read of an address, and what was left out."""

    state: dict[str, Any]
    left_out: list[str] = field(default_factory=list)


def cost_address(query: Mapping[str, str], catalogue: Catalogue, allowed: Sequence[str]) -> Address:
    """The state of the cost room: what is costed, which kind, over which letter, at which sizes."""
    found = Address({})
    picked: list[str] = []
    for name in filter(None, (part.strip() for part in query.get("of", "").split(","))):
        if name in picked:
            continue
        module = name.partition("@")[0]  # the sizes of its inputs stand after it
        if name not in catalogue.costs and module not in allowed:
            found.left_out.append(unknown_target(module, catalogue))
        elif len(picked) == MOST_PICKED:
            found.left_out.append(f"{name[:60]} is left out: at most {MOST_PICKED} are shown.")
        else:
            picked.append(name)
    show = query.get("show", "flops")
    if show not in KINDS:
        found.left_out.append(f"{show[:60]!r} is nothing that is counted. Choose from {', '.join(KINDS)}.")
        show = "flops"
    at = read_sizes(query.get("at", ""), found.left_out, catalogue)
    over = query.get("over", "T")
    if over not in catalogue.letters:
        found.left_out.append(f"{over[:60]!r} is no letter.")
        over = "T"
    sizes = {letter: str(size) for letter, size in at.items()}
    found.state = {"of": picked or list(FIRST_PICKED), "show": show, "over": over, "at": sizes}
    return found


def read_sizes(text: str, left_out: list[str], catalogue: Catalogue) -> dict[str, int]:
    """Sizes as an address writes them, `B:1,T:4096`.

    >>> from porism.web.catalogue import catalogue
    >>> read_sizes("B:1,T:4096", [], catalogue())
    {'B': 1, 'T': 4096}
    """
    sizes: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        letter, _, size = part.partition(":")
        if letter not in catalogue.letters:
            left_out.append(f"{part[:60]!r} is left out: {letter[:20]!r} is no letter.")
        elif not (size.isascii() and size.isdigit() and len(size) <= MOST_DIGITS and int(size) > 0):
            left_out.append(f"{part[:60]!r} is left out: a size is a whole number from 1 on, of {MOST_DIGITS} digits.")
        else:
            sizes[letter] = int(size)
    return sizes


def unknown_target(name: str, catalogue: Catalogue) -> str:
    """What to tell of a target that is not known here; of a module, the flag that lets it in."""
    name = name[:100]
    if ":" in name:
        return f"{name} may not be imported. Start the server with: porism serve --allow {name}"
    return f"The page has no formulas of {name!r}. {nearest(name, list(catalogue.costs))} Or ask: porism cost {name}"


def chosen(query: Mapping[str, str], name: str, choices: Sequence[str], default: str, left_out: list[str]) -> str:
    """One of several words."""
    given = query.get(name, default) or default
    if given in choices or given == default:
        return given
    left_out.append(f"{name}={given[:60]} is left out. {nearest(given[:60], list(choices))}")
    return default


def whole(query: Mapping[str, str], name: str, default: int, most: int, left_out: list[str]) -> int:
    """A small whole number from 1 on."""
    given = query.get(name, "")
    if not given:
        return default
    if given.isascii() and given.isdigit() and len(given) < 9 and 1 <= int(given) <= most:
        return int(given)
    left_out.append(f"{name}={given[:20]} is left out: expected 1 to {most}.")
    return default


def split_names(query: str, parameter: str, known: Container[str]) -> list[str]:
    """Names with commas between, of which one may have a comma itself, written %2C. Some write every comma so.

    >>> split_names("runs=a%2Cb,c&x=1", "runs", {"a,b", "c"}), split_names("runs=a%2Cc", "runs", {"a", "c"})
    (['a,b', 'c'], ['a', 'c'])
    """
    values = [value for name, _, value in (part.partition("=") for part in query.split("&")) if name == parameter]
    pieces = [unquote_plus(piece) for value in values[:1] for piece in value.split(",")]
    names = [name for piece in pieces for name in ([piece] if piece in known else piece.split(","))]
    return [name for name in names if name]

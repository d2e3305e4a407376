"""Which keys a query looks at, by their places: one definition for the masks, the counts and the pictures."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from porism.errors import RecipeError, ShapeError
from porism.layers.operands import check_whole

Kind = Literal["full", "causal", "sliding", "block", "block-causal"]

KINDS: tuple[Kind, ...] = ("full", "causal", "sliding", "block", "block-causal")


@dataclass(frozen=True)
class Pattern:
    """Query i looks at key j:

    - full: always
    - causal: j <= i
    - sliding: the `window` keys up to and including its own place, and `ahead` after it; with a `dilation` d every d-th
    - block: the keys of its own block of `window`; with `causal_inside` those up to its own place
    - block-causal: the keys of its own block of `window`, whole, and of all blocks before

    >>> print(Pattern("sliding", window=2).drawn(4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■

    A query's place is its index, plus an offset where it continues a text. Keys are at their index.
    """

    kind: Kind = "full"
    window: int | None = None
    ahead: int = 0
    dilation: int = 1
    causal_inside: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ShapeError(f"attention: there is no pattern {self.kind!r}. Choose from {', '.join(KINDS)}.")
        windowed = self.kind in ("sliding", "block", "block-causal")
        if not windowed and self.window is not None:
            raise ShapeError(f"attention: a {self.kind} pattern has no window, got {self.window!r}. Leave it out.")
        if windowed:
            self._check_whole("window", 1)
        self._check_whole("ahead", 0)
        self._check_whole("dilation", 1)
        if self.kind != "sliding" and (self.ahead, self.dilation) != (0, 1):
            raise ShapeError(f"attention: ahead and dilation are for a sliding pattern, and this one is {self.kind}.")
        if not isinstance(self.causal_inside, bool):
            raise ShapeError(f"attention: causal_inside is {self.causal_inside!r}. Give True or False.")
        if self.causal_inside and self.kind != "block":
            raise ShapeError(f"attention: causal_inside is for a block pattern, and this one is {self.kind}.")

    def _check_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        check_whole("attention", name, value, least)
        if not isinstance(value, (int, torch.SymInt)):
            # NumPy's numbers hold 64 bits, and products of Python's hold any.
            object.__setattr__(self, name, int(value))

    @property
    def looks_ahead(self) -> bool:
        """Whether some query looks at a key after its own place, so that no text can be decoded word by word."""
        inside = self.kind == "block" and not self.causal_inside
        return self.kind in ("full", "block-causal") or inside or self.ahead > 0

    def sees(self, query: Tensor, key: Tensor) -> Tensor:
        """Whether the query at one place looks at the key at another, for places that broadcast."""
        behind = query - key
        if self.kind == "full":
            return torch.ones_like(behind, dtype=torch.bool)
        if self.kind == "causal":
            return behind >= 0
        assert self.window is not None
        if self.kind == "sliding":
            reach = (behind < self.window * self.dilation) & (behind >= -self.ahead * self.dilation)
            return reach & (behind % self.dilation == 0) if self.dilation > 1 else reach
        blocks = query // self.window - key // self.window
        if self.kind == "block-causal":
            return blocks >= 0
        return (blocks == 0) & (behind >= 0) if self.causal_inside else blocks == 0

    def mask(self, T: int, S: int, offset: int = 0, device: torch.device | None = None) -> Tensor:
        """True where a query (T) looks at a key (S)."""
        query, key = (torch.arange(length, device=device) for length in (T, S))
        return self.sees(query[:, None] + offset, key[None, :])

    def pairs(self, T: int, S: int | None = None) -> int:
        """How many pairs of query and key are looked at.

        >>> Pattern("causal").pairs(5), Pattern("sliding", window=2).pairs(5), Pattern("block", window=2).pairs(5)
        (15, 9, 9)
        """
        return int(self._keys_seen(torch.arange(T), T if S is None else S).sum())

    def _keys_seen(self, query: Tensor, S: int) -> Tensor:
        """How many of S keys the query at a place looks at, without a look at each of them."""
        if self.kind == "full":
            return torch.full_like(query, S)
        if self.kind == "causal":
            return (query + 1).clamp(max=S)
        assert self.window is not None
        if self.kind == "sliding":
            # Those m = -ahead ... window - 1 for which the key m * dilation places behind is there.
            nearest = ((query - S).floor_divide(self.dilation) + 1).clamp(min=-self.ahead)
            furthest = query.floor_divide(self.dilation).clamp(max=self.window - 1)
            return (furthest - nearest + 1).clamp(min=0)
        start = query // self.window * self.window
        end = (query + 1 if self.causal_inside else start + self.window).clamp(max=S)
        return end if self.kind == "block-causal" else (end - start).clamp(min=0)

    def drawn(self, T: int, S: int | None = None) -> str:
        """The picture that textbooks have: a row a query, a column a key."""
        rows = self.mask(T, T if S is None else S).tolist()
        return "\n".join(" ".join("■" if seen else "·" for seen in row) for row in rows)


FULL, CAUSAL = Pattern(), Pattern("causal")

_LARGEST = 64


def picture(name: str, T: int, exact: Pattern | None = None, series: Pattern | None = None) -> str:
    """■ for a key that has softmax's weight, ▒ for one that has its series', · for one that is not looked at.

    >>> print(picture("causal, window 2", 4, exact=Pattern("sliding", window=2), series=Pattern("causal")))
    causal, window 2: 7 pairs, and 3 by the series
    ■ · · ·
    ■ ■ · ·
    ▒ ■ ■ ·
    ▒ ▒ ■ ■
    """
    near, seen = (
        torch.zeros(T, T, dtype=torch.bool) if pattern is None else pattern.mask(T, T) for pattern in (exact, series)
    )
    far = seen & ~near
    count = f"{near.sum()} pairs" if near.any() else f"{far.sum()} pairs by the series"
    if near.any() and far.any():
        count += f", and {far.sum()} by the series"
    rows = (far + 2 * near).tolist()
    return "\n".join([f"{name}: {count}", *(" ".join("·▒■"[mark] for mark in row) for row in rows)])


def sizes(letters: Mapping[str, int], **usual: int) -> list[int]:
    """The sizes of a picture: those that were given, the usual ones for the others.

    >>> sizes({"W": 2}, T=8, W=3)
    [8, 2]
    """
    for letter in letters:
        if letter not in usual:
            raise RecipeError(f"cost: a picture has no letter {letter} to set. It has {', '.join(usual)}.")
    found = {**usual, **letters}
    if not 1 <= found["T"] <= _LARGEST:
        fit = ",".join(f"{letter}={size}" for letter, size in usual.items())
        raise RecipeError(
            f"cost: T={found['T']} does not fit a picture. Give T from 1 to {_LARGEST}, for instance --at {fit}."
        )
    return list(found.values())

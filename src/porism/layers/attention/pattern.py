"""Which keys a query attends to, by their positions: one definition for masks, counts and pictures."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from porism.errors import Advice, RecipeError, ShapeError, advise
from porism.layers.operands import check_whole

Kind = Literal["full", "causal", "sliding", "block", "block-causal"]

KINDS: tuple[Kind, ...] = ("full", "causal", "sliding", "block", "block-causal")


@dataclass(frozen=True)
class Pattern:
    """Query i attends to key j:

    - full: always
    - causal: j <= i
    - sliding: the `window_size` keys up to and including its own position, and `lookahead` after it; with a `dilation`
      d every d-th
    - block: the keys of its own block of `window_size`; with `is_causal` those up to its own position
    - block-causal: the keys of its own block of `window_size`, whole, and of all blocks before

    >>> print(Pattern("sliding", window_size=2).draw(4))
    ■ · · ·
    ■ ■ · ·
    · ■ ■ ·
    · · ■ ■

    A query's position is its index, plus an offset where it continues a text. Keys are at their index. `mask_mod` is
    what torch's FlexAttention takes: `create_block_mask(pattern.mask_mod, None, None, T, S)`.
    """

    kind: Kind = "full"
    window_size: int | None = None
    lookahead: int = 0
    dilation: int = 1
    is_causal: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ShapeError(f"attention: there is no pattern {self.kind!r}. Choose from {', '.join(KINDS)}.")
        windowed = self.kind in ("sliding", "block", "block-causal")
        if not windowed and self.window_size is not None:
            raise ShapeError(
                f"attention: a {self.kind} pattern has no window, got window_size {self.window_size!r}. Leave it out."
            )
        if windowed:
            self._check_whole("window_size", 1)
        self._check_whole("lookahead", 0)
        self._check_whole("dilation", 1)
        if self.kind != "sliding" and (self.lookahead, self.dilation) != (0, 1):
            raise ShapeError(
                f"attention: lookahead and dilation are for a sliding pattern, and this one is {self.kind}."
            )
        if not isinstance(self.is_causal, bool):
            raise ShapeError(f"attention: is_causal is {self.is_causal!r}. Give True or False.")
        if self.is_causal and self.kind != "block":
            raise ShapeError(
                f"attention: is_causal of a pattern is for blocks, and this one is {self.kind}. Take Pattern('causal')."
            )

    def _check_whole(self, name: str, least: int) -> None:
        value = getattr(self, name)
        check_whole("attention", name, value, least)
        if not isinstance(value, (int, torch.SymInt)):
            # NumPy's numbers hold 64 bits, and products of Python's hold any.
            object.__setattr__(self, name, int(value))

    @property
    def is_decodable(self) -> bool:
        """Whether no query attends to a key after its own position, so that texts can be decoded token by token."""
        if self.kind == "block":
            return self.is_causal
        return self.kind == "causal" or (self.kind == "sliding" and self.lookahead == 0)

    def causal(self, layer: str = "attention") -> "Pattern":
        """The pattern for `is_causal=True`: a full one becomes causal, one that attends ahead is refused."""
        if self.kind == "full":
            return CAUSAL
        if not self.is_decodable:
            raise ShapeError(
                f"{layer}: is_causal or decoding came with a {self.kind} pattern that attends ahead. "
                "Give a pattern that does not: causal, sliding without lookahead, or block with is_causal."
            )
        return self

    def attends_to_all(self, S: int, offset: int = 0) -> bool:
        """Whether every query attends to all S keys, as those do that come after them in a causal pattern."""
        return self.kind == "full" or (self.kind == "causal" and offset >= S - 1)

    @property
    def mask_mod(self) -> Callable[[Any, Any, Tensor, Tensor], Tensor]:
        """mask_mod(b, h, q_idx, kv_idx), as FlexAttention takes it: alike for every batch b and head h."""

        # A plain function: torch tells a mask_mod by its four arguments, and would count `self` among a method's.
        def mask_mod(b: Any, h: Any, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
            return self._attends(q_idx, kv_idx)

        return mask_mod

    def _attends(self, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        """Whether the query at one position attends to the key at another."""
        distance = q_idx - kv_idx
        if self.kind == "full":
            return torch.ones_like(distance, dtype=torch.bool)
        if self.kind == "causal":
            return distance >= 0
        assert self.window_size is not None
        if self.kind == "sliding":
            near = (distance < self.window_size * self.dilation) & (distance >= -self.lookahead * self.dilation)
            return near & (distance % self.dilation == 0) if self.dilation > 1 else near
        blocks = q_idx // self.window_size - kv_idx // self.window_size
        if self.kind == "block-causal":
            return blocks >= 0
        return (blocks == 0) & (distance >= 0) if self.is_causal else blocks == 0

    def mask(self, T: int, S: int, offset: int = 0, device: torch.device | None = None) -> Tensor:
        """True where a query (T) attends to a key (S)."""
        query, key = (torch.arange(length, device=device) for length in (T, S))
        return self._attends(query[:, None] + offset, key[None, :])

    def num_pairs(self, T: int, S: int | None = None) -> int:
        """How many pairs of query and key there are where the one attends to the other.

        >>> near = Pattern("sliding", window_size=2), Pattern("block", window_size=2)
        >>> Pattern("causal").num_pairs(5), *(pattern.num_pairs(5) for pattern in near)
        (15, 9, 9)
        """
        _check_lengths(T, S)
        return int(self._keys_of(torch.arange(T), T if S is None else S).sum())

    def _keys_of(self, query: Tensor, S: int) -> Tensor:
        """To how many of S keys the query at a position attends, without a look at each of them."""
        if self.kind == "full":
            return torch.full_like(query, S)
        if self.kind == "causal":
            return (query + 1).clamp(max=S)
        assert self.window_size is not None
        if self.kind == "sliding":
            # Those m = -lookahead ... window_size - 1 for which the key m * dilation positions before is there.
            nearest = ((query - S).floor_divide(self.dilation) + 1).clamp(min=-self.lookahead)
            furthest = query.floor_divide(self.dilation).clamp(max=self.window_size - 1)
            return (furthest - nearest + 1).clamp(min=0)
        start = query // self.window_size * self.window_size
        end = (query + 1 if self.is_causal else start + self.window_size).clamp(max=S)
        return end if self.kind == "block-causal" else (end - start).clamp(min=0)

    def draw(self, T: int, S: int | None = None) -> str:
        """The picture that textbooks have: a row a query, a column a key."""
        _check_lengths(T, S)
        rows = self.mask(T, T if S is None else S).tolist()
        return "\n".join(" ".join("■" if attended else "·" for attended in row) for row in rows)


def _check_lengths(T: Any, S: Any) -> None:
    """Refuses what cannot be a number of queries and of keys; for S None, as many keys as queries."""
    for name, length in (("T", T), ("S", T if S is None else S)):
        check_whole("attention", name, length, 0)


FULL, CAUSAL = Pattern(), Pattern("causal")

_LARGEST = 64


def picture(name: str, T: int, exact: Pattern | None = None, series: Pattern | None = None) -> str:
    """■ for a key that has softmax's weight, ▒ for one that has its series', · for one that is not attended to.

    >>> print(picture("causal, window 2", 4, exact=Pattern("sliding", window_size=2), series=Pattern("causal")))
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
            f"cost: T={found['T']} does not fit a picture. Give T from 1 to {_LARGEST},",
            advise("for instance {}.", Advice(f"--at {fit}", fit)),
        )
    return list(found.values())

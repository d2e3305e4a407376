"""From which size on a formula and the count differ, outside of the sizes at which it was confirmed."""

from collections.abc import Callable, Mapping

from porism.costing.fitting.samples import Sizes

Differs = Callable[[Sizes], bool | None]


def departure(
    differs: Differs, sizes: Mapping[str, int], ranges: Mapping[str, tuple[int, int]], steps: Mapping[str, int]
) -> str:
    """In words where they part, searched between the confirmed sizes and these, at which they differ.

    differs: whether formula and count differ at some sizes; None where that cannot be told.

    >>> departure(lambda sizes: sizes["T"] > 512, {"B": 2, "T": 4096}, {"B": (1, 60), "T": (5, 138)}, {})
    'from T=513 on'
    >>> departure(lambda sizes: sizes["T"] % 1000 == 0, {"T": 3000}, {"T": (5, 138)}, {})
    'at T=3000'
    """
    near = {letter: min(max(size, ranges[letter][0]), ranges[letter][1]) for letter, size in sizes.items()}
    outside = [letter for letter, size in sizes.items() if near[letter] != size]
    for letter in outside:
        if differs(near | {letter: sizes[letter]}):
            step = steps.get(letter, 1) * (1 if sizes[letter] > near[letter] else -1)
            return _along(differs, letter, near, sizes[letter], step)
    return "at " + ", ".join(f"{letter}={sizes[letter]}" for letter in outside)


def _along(differs: Differs, letter: str, near: Sizes, size: int, step: int) -> str:
    """By halving between a confirmed size of a letter and one at which formula and count differ."""
    same, other = near[letter], size
    while (other - same) // step > 1:
        middle = same + (other - same) // (2 * step) * step
        found = differs(near | {letter: middle})
        if found is None:
            return f"at {letter}={size}"
        same, other = (same, middle) if found else (middle, other)
    if step < 0:
        return f"up to {letter}={other}"
    return f"from {letter}={other} on" if differs(near | {letter: other + step}) else f"at {letter}={other}"

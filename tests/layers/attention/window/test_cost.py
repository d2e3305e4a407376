"""The cost formulas against the pattern's own pairs and against the code, and the pictures against the program."""

import re
from pathlib import Path

import pytest
import torch
from sympy import Integer

from porism.costing.alphabet import SYMBOLS
from porism.costing.counting.count import count
from porism.errors import RecipeError
from porism.layers.attention import window
from porism.layers.attention.pattern import Kind, Pattern
from porism.layers.attention.window.cost import MULTIPLES, cost, drawing, pairs, subject
from porism.layers.attention.window.kernels.blocks import ROWS
from porism.layers.attention.window.layer import WindowAttention

README = Path(window.__file__).with_name("README.md").read_text(encoding="utf-8")
PICTURE = re.compile(r"^```\n(Pattern\([^\n]*\))\n(.*?)\n```", re.MULTILINE | re.DOTALL)


KINDS: list[tuple[Kind, int, int]] = [
    ("sliding", 1, 0),
    ("sliding", 5, 0),
    ("sliding", 40, 0),
    ("sliding", 3, 2),
    ("block", 5, 0),
    ("block", 64, 0),
]
LENGTHS = (1, 2, 7, 31, 32, 33, 63, 64, 65, 97, 257)
HOLDS = [(T, *kind) for T in LENGTHS for kind in KINDS if kind[2] == 0 or kind[1] + kind[2] < T]


@pytest.mark.sweep(2, each="T")
@pytest.mark.parametrize(("T", "kind", "W", "ahead"), HOLDS)
def test_the_formula_equals_the_count(T: int, kind: Kind, W: int, ahead: int) -> None:
    layer = WindowAttention(12, 3, pattern=Pattern(kind, W, ahead), batch_first=True, num_kv_heads=1)
    found = count(layer, torch.randn(2, T, 12, requires_grad=True))
    wanted = cost(heads=3, num_kv_heads=1, kind=kind, window_size=W, lookahead=ahead).at(B=2, T=T, D=4)
    assert found.parameters.count == wanted["parameters"]
    assert found.flops == wanted["flops"]
    assert found.backward_flops == wanted["backward_flops"]
    assert found.saved_bytes == 4 * wanted["saved"]


@pytest.mark.parametrize("T", [65, 97, 257])
@pytest.mark.parametrize("W", [1, 5, 64])
def test_pairs_needed_are_those_of_the_readme_and_few_more_are_computed(T: int, W: int) -> None:
    needed = Pattern("sliding", window_size=W).num_pairs(T)
    assert needed == T * W - W * (W - 1) // 2
    computed = pairs("sliding", W).subs(SYMBOLS["T"], T)
    assert needed <= computed <= T * (W + ROWS - 1)
    a, r = divmod(T, W)
    blocks = pairs("block", W).subs(SYMBOLS["T"], T)
    assert blocks == Pattern("block", window_size=W).num_pairs(T) == Integer(a * W**2 + r**2)


def test_what_is_counted_is_the_layer_at_lengths_without_a_rest() -> None:
    build, inputs = subject()
    layer = build(2, 3, 5)
    assert isinstance(layer, WindowAttention)
    assert (layer.num_heads, layer.head_dim, layer.pattern) == (2, 3, Pattern("sliding", window_size=5))
    assert inputs == ("B T A*D",)
    assert MULTIPLES == {"T": ROWS}


def test_the_pictures_are_what_the_program_draws() -> None:
    pictures = PICTURE.findall(README)
    assert len(pictures) == 5
    for made_by, picture in pictures:
        pattern = eval(made_by, {"Pattern": Pattern})
        assert picture == pattern.draw(len(picture.splitlines())), made_by


def test_drawing_shows_the_patterns_and_counts_their_pairs() -> None:
    parts = drawing({"T": 7, "W": 2}).split("\n\n")
    assert [part.splitlines()[0] for part in parts] == [
        "causal: 28 pairs",
        "sliding, window 2: 13 pairs",
        "sliding, window 2, 1 ahead: 19 pairs",
        "sliding, window 2, dilation 2: 12 pairs",
        "block, window 2: 13 pairs",
        "block, window 2, causal inside: 10 pairs",
        "sliding windows in one picture, by the narrowest that has the pair: W=2 13 pairs, W=4 22, causal 28",
    ]
    in_one = [row.split() for row in parts[-1].splitlines()[1:]]
    for width, marks in ((2, "2"), (4, "24")):
        drawn = [["■" if mark in marks else "·" for mark in row] for row in in_one]
        assert "\n".join(" ".join(row) for row in drawn) == Pattern("sliding", window_size=width).draw(7)
    assert parts[1].split("\n", 1)[1] == Pattern("sliding", window_size=2).draw(7)
    assert len(drawing({}).split("\n\n")[0].splitlines()) == 9
    with pytest.raises(
        RecipeError, match=r"T=16384 does not fit a picture\. Give T from 1 to 64, for instance --at T=8,W=3"
    ):
        drawing({"T": 16384})

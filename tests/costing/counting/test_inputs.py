import re

import pytest
import torch

from porism.costing.counting import inputs
from porism.costing.counting.inputs import TensorSpec
from porism.errors import ShapeError


def test_a_text_becomes_a_tensor_at_any_sizes() -> None:
    spec = TensorSpec.parse("B T 64")
    made = spec.make({"B": 3, "T": 7}, torch.float64)
    assert made.shape == (3, 7, 64)
    assert made.dtype == torch.float64
    assert made.requires_grad
    words = TensorSpec.parse("B T : int").make({"B": 3, "T": 7}, torch.float64)
    assert words.dtype == torch.int64
    assert not words.requires_grad


def test_a_nest_keeps_its_shape_and_its_letters_their_order() -> None:
    nest = inputs.parse(("T B D", {"state": ("1 B H", "1 B H"), "flag": True}))
    assert inputs.letters_of(nest) == ("T", "B", "D", "H")
    x, rest = inputs.make(nest, {"T": 2, "B": 3, "D": 5, "H": 7}, torch.float32)
    assert x.shape == (2, 3, 5)
    assert [part.shape for part in rest["state"]] == [(1, 3, 7), (1, 3, 7)]
    assert rest["flag"] is True


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "B T.x",
            "cost: in the input 'B T.x', 'T.x' is no size. Write letters, numbers and what follows from them: "
            "'B T 64 2*H'.",
        ),
        ("B f(T)", "cost: in the input 'B f(T)', 'f(T)' is no size."),
        ("B 1.5", "cost: in the input 'B 1.5', '1.5' is no size."),
        ("B T : bool < 3", "cost: the input 'B T : bool < 3' has a bound, and only integers have one."),
        ("B 0", "cost: the input 'B 0' has a size of zero. Give sizes from 1 on."),
        ("B : word", "cost: the input 'B : word' is of no known kind 'word'. Choose from float, data, int, bool."),
    ],
)
def test_a_bad_text_is_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(message)):
        TensorSpec.parse(text)

"""What code asks of sizes is noted, and the sizes are whole numbers in all else."""

import copy
import math
import pickle
from functools import cache

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from porism import cost
from porism.costing.counting import size_conditions
from porism.costing.counting.fake import ShapeMode
from porism.costing.counting.size_conditions import SizeCondition, observed_sizes


def test_comparisons_and_remainders_are_noted() -> None:
    with observed_sizes({"B": 3, "T": 11}) as (sizes, found):
        T = sizes["T"]
        answers = [T > 48, sizes["B"] * 2 == T, not T % 16, min(T, 512), T >= 7, (-T) % 64, T / 128, T.bit_length()]
    assert answers == [False, False, False, 11, True, 53, 11 / 128, 4]
    assert {"T > 48", "B * 2 == T", "T % 16 == 0", "T >= 7", "-T % 64 == 0", "ceil(T / 128)"} <= found.keys()


def test_a_size_is_a_whole_number() -> None:
    with observed_sizes({"T": 11}) as (sizes, _):
        T = sizes["T"]
    made: list[int] = []
    keep = cache(made.append)
    keep(T)
    keep(11)
    assert [type(size) is int for size in made] == [False, True]  # no cache of the user's code keeps an observed one
    assert (math.sqrt(T), list(range(T))[-1], f"{T}") == (math.sqrt(11), 10, "11")
    assert type(pickle.loads(pickle.dumps(T))) is int
    assert copy.deepcopy([T]) == [11]


def test_shapes_of_tensors_are_observed_and_cuts_beyond_their_length() -> None:
    with ShapeMode(), observed_sizes({"B": 3, "T": 11}) as (sizes, found):
        x = torch.empty(sizes["B"], sizes["T"], 5)
        assert x.shape[1] <= 40
        assert x.mT.size(-1) != 99
        assert x.flatten(0, 1).size()[0] < 1000
        cut, parts = x[:, :64], x.split(128, 1)
    assert (cut.shape, len(parts)) == ((3, 11, 5), 1)
    assert {"T <= 40", "T != 99", "B * T < 1000", "T > 64", "T > 128"} == found.keys()
    assert "shape" not in vars(FakeTensor)
    assert "__getitem__" not in vars(FakeTensor)


@pytest.mark.parametrize(
    ("condition", "changes"),
    [
        (SizeCondition("T > 48", frozenset("T"), lambda at: at["T"] > 48), [("T", 49)]),
        (SizeCondition("T % 8", frozenset("T"), lambda at: at["T"] % 8 == 0), [("T", 16), ("T", 8)]),
        (SizeCondition("T == B", frozenset("BT"), lambda at: at["T"] == at["B"]), [("B", 11), ("T", 3)]),
        (SizeCondition("4 // T", frozenset("T"), lambda at: 4 // (at["T"] - 12)), [("T", 13), ("T", 10)]),
    ],
    ids=lambda value: value.text if isinstance(value, SizeCondition) else "",
)
def test_the_nearest_sizes_with_another_answer(condition: SizeCondition, changes: list[tuple[str, int]]) -> None:
    assert list(condition.changes({"B": 3, "T": 11}, 100)) == changes


def test_a_run_is_left_after_any_number_of_operators(monkeypatch: pytest.MonkeyPatch, is_whole: bool) -> None:
    """An exception where C++ asks a tensor for its device would end the process."""
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    for most in range(1, 30) if is_whole else (1, 2, 3, 5, 8, 13, 21):
        monkeypatch.setattr(size_conditions, "MOST_OPERATORS", most)
        assert str(cost(net, "B T 8").flops) == "256*B*T"

"""A derivation says how far it is, and can be stopped between two counts."""

import pytest
from torch import nn

from porism.costing.counting.listening import before_each_count
from porism.costing.derive import derive


class Stopped(BaseException):
    """No error, so that nothing takes it for a refusal."""


def test_every_size_that_is_counted_is_heard_of_and_can_be_the_last() -> None:
    counts: list[None] = []
    with before_each_count(lambda: counts.append(None)):
        derived = derive(nn.Linear(3, 2), "B 3")
    assert str(derived.flops) == "12*B"
    assert len(counts) > 2
    derive(nn.Linear(3, 2), "B 3")
    before, left = len(counts), iter([None, None])

    def stop() -> None:
        if next(left, Stopped) is Stopped:
            raise Stopped

    with pytest.raises(Stopped), before_each_count(stop):
        derive(nn.Linear(3, 2), "B 3")
    assert len(counts) == before

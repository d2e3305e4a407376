"""Ours is exact on every case of the counters benchmark, at other sizes too; what the table says of others is so."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import counters
from counter_cases import CASES, SIZES, Case, call, written
from counter_peers import PEERS, PORISM, Answer, Peer, ask, check_installed
from porism.costing.counting.count import Count, count, total
from porism.errors import MissingExtra, ShapeError

# torch says so of every CSR matrix, once a process.
pytestmark = [pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state"), pytest.mark.sample(80)]

OTHER_SIZES = {
    "B": 2, "T": 11, "D": 12, "H": 8, "A": 3, "M": 1, "K": 3, "W": 5, "V": 7, "N": 7, "E": 20, "C": 6, "Y": 13, "X": 10,
}  # fmt: skip
BY_NAME = {case.name: case for case in CASES}
NAMES = [case.name for case in CASES]
# torch makes no sparse matrix of shapes alone.
DENSE = [case for case in CASES if not case.name.startswith("sparse") and case.name != "graph convolution"]


def run(case: Case, sizes: dict[str, int]) -> Count:
    made = case.make(sizes)
    return count(made.target, *made.args, **made.kwargs)


def assert_exact(case: Case, counted: Count, sizes: dict[str, int]) -> None:
    assert (counted.flops, counted.backward_flops) == (case.hand(case.forward, sizes), case.hand(case.backward, sizes))
    assert counted.uncounted == {}
    if case.elementwise is not None:
        assert total(counted.elementwise_forward) == case.hand(case.elementwise, sizes)


@pytest.mark.parametrize("sizes", [SIZES, OTHER_SIZES], ids=["its sizes", "other sizes"])
@pytest.mark.parametrize("case", CASES, ids=NAMES)
def test_ours_equals_the_hand_count(case: Case, sizes: dict[str, int]) -> None:
    assert_exact(case, run(case, sizes), sizes)


@pytest.mark.sweep(12)
@pytest.mark.parametrize("case", [case for case in CASES if not case.needs_values], ids=lambda case: case.name)
def test_shapes_alone_give_the_hand_count(case: Case) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert_exact(case, run(case, SIZES), SIZES)


@pytest.mark.parametrize("case", [case for case in CASES if case.needs_values], ids=lambda case: case.name)
def test_what_shapes_alone_do_not_tell_is_named(case: Case) -> None:
    made = case.make()
    with FakeTensorMode(allow_non_fake_inputs=True):
        try:
            uncounted = count(made.target, *made.args, **made.kwargs).uncounted
        except ShapeError:
            return
    assert uncounted != {}


class Devices(TorchDispatchMode):
    """Where the tensors lie that operators are called with; numbers may stay on the CPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.seen: set[tuple[str, ...]] = set()

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor) and value.dim()]
        self.seen.add(tuple(sorted({value.device.type for value in given})))
        return operator(*args, **(kwargs or {}))


@pytest.mark.parametrize("case", DENSE, ids=lambda case: case.name)
def test_a_case_runs_where_its_inputs_lie(case: Case) -> None:
    made = counters.made_on(torch.device("meta"), case).make()
    with Devices() as devices, contextlib.suppress(NotImplementedError):  # of CTC torch has no shapes: it saw them
        made.target(*made.args, **made.kwargs)
    assert devices.seen - {()} == {("meta",)}


def test_there_are_many_cases_each_with_its_own_name() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 44


@pytest.mark.parametrize(
    ("peer", "case", "passed", "shown"),
    [
        ("torch", "Linear", "forward", "1"),
        ("torch", "Linear, input fixed", "backward", "1"),
        ("torch", "LSTM", "forward", "0"),
        ("torch", "SDPA", "backward", "0"),
        ("torch", "Conv2d, depthwise", "backward", "2.5"),  # C = 4: half of 1 + C times too much
        ("torch", "sparse.mm, COO", "backward", "6.23"),  # as if all 81 elements were stored, and not 13
        ("fvcore", "Linear", "forward", "1"),
        ("fvcore", "GRU", "forward", "0"),
        ("fvcore", "Linear", "backward", "-"),
        ("torchinfo", "Linear, 3-D input", "forward", "0.157"),  # a batch of T tokens for one, and the bias
        ("torchinfo", "sparse.mm, CSR", "forward", "raises"),
        ("thop", "Conv2d", "forward", "1"),
        ("thop", "addmm", "forward", "0"),
        ("ptflops", "matmul", "forward", "1"),  # a function it replaces in torch, and the whole batch
        ("ptflops", "SDPA", "forward", "0"),
        ("calflops", "matmul", "forward", "1"),
        ("calflops", "Linear, input fixed", "backward", "2"),  # a factor, whoever asks
    ],
)
def test_what_a_peer_says(peer: str, case: str, passed: str, shown: str) -> None:
    (chosen,) = (one for one in PEERS if one.name == peer)
    check_installed((chosen,))
    if peer == "calflops":
        pytest.importorskip("transformers", reason="calflops imports transformers when it counts")
    tried = BY_NAME[case]
    assert counters.ratio(ask(chosen, tried), passed, tried.hand(getattr(tried, passed))) == shown


def test_what_a_peer_breaks_is_mended(capsys: pytest.CaptureFixture[str]) -> None:
    def breaks(_: Any) -> Answer:
        print("a word")
        library: Any = torch
        library.matmul = library.Tensor.cumsum = torch.add
        raise KeyError("no such layer\nand a long tale")

    before = torch.matmul
    answer = ask(Peer("bad", "bad", "bad", breaks), BY_NAME["Linear"])
    assert answer == Answer(None, None, "KeyError: 'no such layer\\nand a long tale'")
    assert torch.matmul is before
    assert torch.ones(3).cumsum(0).tolist() == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


def test_a_peer_that_is_not_installed_is_named_with_its_extra() -> None:
    check_installed()
    with pytest.raises(MissingExtra) as caught:
        check_installed((PORISM, Peer("x", "no-such-counter", "no_such_counter", PORISM.count)))
    assert str(caught.value) == 'the counters benchmark needs no-such-counter: pip install "porism[bench]".'


@pytest.mark.parametrize(
    ("counted", "hand", "shown"),
    [
        (7, 7, "1"),
        (0, 0, "1"),
        (0, 7, "0"),
        (5, 0, "+5"),
        (1, 3, "0.333"),
        (20_000_001, 20_000_000, "1.00000005"),
        (10**17 + 1, 10**17, "nearly 1"),
        (None, 7, "-"),
    ],
)
def test_only_exact_is_shown_as_one(counted: int | None, hand: int, shown: str) -> None:
    assert counters.ratio(Answer(counted), "forward", hand) == shown


def test_a_hand_formula_reads_as_people_write_it() -> None:
    assert written(BY_NAME["LSTM"].forward) == "8·B·H·T·(D + H)"
    assert written(BY_NAME["Embedding"].forward) == "0"


LINEAR = BY_NAME["Linear"]


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (LINEAR, 0),
        (Case("wrong forward", LINEAR.build, LINEAR.forward + 1, LINEAR.backward), 1),
        (Case("wrong backward", LINEAR.build, LINEAR.forward, LINEAR.backward + 1), 1),
        (Case("wrong elements", lambda B: call(torch.exp, torch.randn(B)), 0, 0, elementwise=1), 1),
        (Case("uncounted", lambda B: call(torch.linalg.inv, torch.eye(B)), 0, 0), 1),
        (Case("raises", lambda B: call(nn.Linear(B, B), torch.eye(B + 1)), 0, 0), 1),
    ],
    ids=lambda value: value.name if isinstance(value, Case) else str(value),
)
def test_the_run_fails_unless_ours_is_exact(
    case: Case, code: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_installed()
    monkeypatch.setattr(counters, "CASES", [case])
    monkeypatch.setattr(counters, "COUNTERS", (PORISM, PEERS[0]))
    assert counters.main(out=tmp_path / "result.json") == code
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["tally"]["all"]["forward"].keys() == {"porism", "torch"}
    assert result["versions"].keys() >= {"torch", "fvcore", "ultralytics-thop"}
    assert "porism, of 1 (all): forward exact in" in capsys.readouterr().out


def test_the_tally_without_conventions_leaves_out_their_cases() -> None:
    names = {case.name for case in CASES}
    assert names >= counters.CONVENTIONS.keys()
    result = json.loads(counters.RESULT.read_text())
    out = {row["case"] for row in result["rows"] if row["convention"]}
    assert {"fft", "CTC loss", "Elman", "SDPA", "LayerNorm"} <= out
    assert {"Linear", "LSTM", "Conv2d", "sparse.mm, CSR"} <= names - out
    assert result["tally"] == counters.tallies(result["rows"])
    assert result["tally"]["alike"]["cases"] == len(names - out)


def test_no_tally_of_nothing() -> None:
    assert counters.tally([], "forward") == {}


def test_a_peer_counts_as_off_from_half_and_from_double() -> None:
    def column(hand: int, counted: int | None) -> dict[str, Any]:
        return {"forward": {"hand": hand, "counts": {"x": counted}, "ratios": {"x": "?"}}}

    for hand, counted, off in [(10, 5, 1), (10, 6, 0), (10, 19, 0), (10, 20, 1), (10, None, 1), (0, 99, 0)]:
        assert counters.tally([column(hand, counted)], "forward")["x"]["off_by_two"] == off


def test_the_result_that_is_kept_is_of_these_cases() -> None:
    rows = json.loads(counters.RESULT.read_text())["rows"]
    kept = [(row["case"], row["forward"]["formula"], row["backward"]["formula"]) for row in rows]
    assert kept == [(case.name, written(case.forward), written(case.backward)) for case in CASES]
    assert counters.all_exact(rows)

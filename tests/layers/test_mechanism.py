"""Whatever "auto" chooses, the numbers are those asked for; and what it knows of a device is measured once."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from mechanism import cases as benchmark_cases
from porism.cost.counting import count
from porism.errors import ShapeError
from porism.layers import (
    Attention,
    AutoAttention,
    WindowAttention,
    choose,
    hybrid_attention,
    softmax_attention,
    taylor_attention,
    window_attention,
)
from porism.layers.attention import naive as softmax_naive
from porism.layers.check import relative_error
from porism.layers.hybrid import naive as hybrid_naive
from porism.layers.mechanism import attention, calibration, operation
from porism.layers.mechanism.calibration import Rates, fit
from porism.layers.mechanism.choice import Choice, decide
from porism.layers.mechanism.examples import examples
from porism.layers.mechanism.question import Question
from porism.layers.mechanism.ways import EXACT, MOST_WEIGHTS, SERIES, WAYS, Options, Way
from porism.layers.mechanism.work import work
from porism.layers.pattern import CAUSAL, FULL, Pattern
from porism.layers.taylor import naive as taylor_naive

SAME = 1e-12
DAY = "2026-01-02"
SLIDING = Pattern("sliding", window=5)
PATTERNS = {
    "full": FULL,
    "causal": CAUSAL,
    "sliding": SLIDING,
    "ahead": Pattern("sliding", window=3, ahead=2),
    "dilated": Pattern("sliding", window=3, ahead=1, dilation=2),
    "all but one": Pattern("sliding", window=6),
    "wide": Pattern("sliding", window=100),
    "block": Pattern("block", window=4),
    "causal inside": Pattern("block", window=4, causal_inside=True),
    "one block": Pattern("block", window=100),
    "block-causal": Pattern("block-causal", window=4),
}
each_pattern = pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
KINDS = {
    "softmax": "softmax",
    "causal softmax": "softmax",
    "softmax with a dense mask": "softmax",
    "dense softmax": "dense softmax",
    "dense softmax with a mask": "dense softmax",
    "window": "window",
    "window in blocks": "window",
    "taylor": "taylor",
    "causal taylor": "taylor",
    "dense taylor": "dense taylor",
    "dense taylor with a mask": "dense taylor",
    "hybrid": "hybrid",
    "causal hybrid": "hybrid",
}


@dataclass
class Device:
    """One on which every call takes a second, but for those of a favourite, which are a thousand times as fast."""

    monkeypatch: pytest.MonkeyPatch
    cache: Path
    favourite: str = "softmax"
    disturbed: float = 0.0
    measured: list[str] = field(default_factory=list)

    def prefer(self, name: str) -> None:
        """Another device, of which nothing is known."""
        self.favourite = name
        rmtree(self.cache / "porism", ignore_errors=True)
        self.forget()

    def forget(self) -> None:
        """As a new process would."""
        calibration._known.clear()
        operation._decided.cache_clear()

    def measure(self, way: Way, kind: str, asked: Question) -> Rates:
        self.measured.append(kind)
        rates = {"calls": 1e-3 if way.name == self.favourite else 1.0}
        return Rates(rates, rates, DAY, self.disturbed)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Device]:
    torch.manual_seed(0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made = Device(monkeypatch, tmp_path)
    monkeypatch.setattr(calibration, "_measured", made.measure)
    made.forget()
    yield made
    made.forget()


def operands(
    T: int = 7, S: int | None = None, B: int = 2, A: int = 4, G: int = 2, D: int = 3, H: int = 5, **options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    S = T if S is None else S
    made: dict[str, Any] = {"dtype": torch.float64, "requires_grad": True} | options
    q, k, v = (torch.randn(size, **made) for size in ((B, A, T, D), (B, G, S, D), (B, G, S, H)))
    return q, k, v


def assert_same(found: Tensor, wanted: Tensor, variables: tuple[Tensor, ...]) -> None:
    weights = torch.linspace(-1, 2, wanted.numel(), dtype=wanted.dtype).view_as(wanted)
    both = [[y, *torch.autograd.grad((y * weights).sum(), variables)] for y in (found, wanted)]
    assert max(relative_error(ours, theirs) for ours, theirs in zip(*both, strict=True)) <= SAME


def oracle(q: Tensor, k: Tensor, v: Tensor, pattern: Pattern, padding: Tensor | None = None, offset: int = 0) -> Tensor:
    return softmax_naive.softmax_attention(q, k, v, softmax_naive.looked_at(pattern, q, k, padding, offset))


@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
def test_whatever_is_chosen_equals_the_oracle(device: Device, favourite: str, pattern: Pattern) -> None:
    device.prefer(favourite)
    for T, S, offset, padded in ((1, 1, 0, False), (7, 7, 0, True), (63, 63, 0, False), (7, 12, 3, False)):
        q, k, v = operands(T, S)
        padding = torch.rand(2, S) < 0.3 if padded else None
        found = attention(q, k, v, pattern=pattern, key_padding=padding, offset=offset)
        assert_same(found, oracle(q, k, v, pattern, padding, offset), (q, k, v))


@each_pattern
@pytest.mark.parametrize("favourite", EXACT)
def test_texts_end_to_end_attend_to_themselves(device: Device, favourite: str, pattern: Pattern) -> None:
    device.prefer(favourite)
    q, k, v = operands(12, B=1)
    borders = [0, 5, 5, 12]
    found = attention(q, k, v, pattern=pattern, cumulative_lengths=borders)
    parts = [slice(0, 5), slice(5, 12)]
    wanted = torch.cat([oracle(q[:, :, n], k[:, :, n], v[:, :, n], pattern) for n in parts], dim=2)
    assert_same(found, wanted, (q, k, v))


@pytest.mark.parametrize("pattern", [FULL, CAUSAL, Pattern("block-causal", window=4)], ids=lambda p: p.kind)
@pytest.mark.parametrize("favourite", SERIES)
@pytest.mark.parametrize("mechanism", ["series", "auto"])
def test_the_series_is_one_whichever_way_it_is_taken(
    device: Device, mechanism: str, favourite: str, pattern: Pattern
) -> None:
    device.prefer(favourite)
    q, k, v = operands(63)
    padding = torch.rand(2, 63) < 0.3
    padding[0, :3] = True  # in a causal pattern nobody is there for the first queries
    assert choose(q, k, v, mechanism=mechanism, pattern=pattern, key_padding=padding, order=4).name == favourite
    found = attention(q, k, v, mechanism=mechanism, pattern=pattern, key_padding=padding, order=4)
    assert_same(found, taylor_naive.taylor_attention(q, k, v, order=4, pattern=pattern, key_padding=padding), (q, k, v))


def test_the_hybrid_is_the_hybrid(device: Device) -> None:
    device.prefer("hybrid")
    q, k, v = operands(63)
    found = attention(q, k, v, pattern=CAUSAL, order=2, window=5)
    assert_same(found, hybrid_naive.hybrid_attention(q, k, v, window=5, order=2, pattern=CAUSAL), (q, k, v))


def test_a_mechanism_that_is_named_is_the_function_of_that_name() -> None:
    q, k, v = operands(63, dtype=torch.float32)
    pairs: dict[str, tuple[Pattern, dict[str, Any], Tensor]] = {
        "softmax": (CAUSAL, {}, softmax_attention(q, k, v, pattern=CAUSAL)),
        "window": (SLIDING, {}, window_attention(q, k, v, pattern=SLIDING)),
        "taylor": (CAUSAL, {}, taylor_attention(q, k, v, order=2, pattern=CAUSAL)),
        "hybrid": (FULL, {"window": 9, "order": 4}, hybrid_attention(q, k, v, window=9, order=4)),
    }
    for name, (pattern, settings, wanted) in pairs.items():
        assert torch.equal(attention(q, k, v, mechanism=name, pattern=pattern, **settings), wanted), name


def test_what_is_chosen_is_the_named_one_bit_for_bit(device: Device) -> None:
    q, k, v = operands(63, dtype=torch.float32)
    for name in EXACT:
        device.prefer(name)
        found = attention(q, k, v, pattern=SLIDING)
        assert torch.equal(found, attention(q, k, v, mechanism=name, pattern=SLIDING)), name


def chosen_among(device: Device, **asked: Any) -> set[str]:
    """All that is ever chosen, whatever would be the cheapest."""
    found = set()
    for name in WAYS:
        device.prefer(name)
        found.add(choose(*operands(63, dtype=torch.float32), **asked).name)
    return found


def test_the_class_is_never_left(device: Device) -> None:
    series, hybrid = {"order": 2}, {"order": 2, "window": 5}
    assert chosen_among(device) == {"softmax", "dense softmax"}
    assert chosen_among(device, pattern=SLIDING) == {"softmax", "dense softmax", "window"}
    assert chosen_among(device, pattern=Pattern("sliding", window=63)) == {"softmax", "dense softmax"}
    assert chosen_among(device, **series) == {"softmax", "dense softmax", "taylor", "dense taylor"}
    assert chosen_among(device, **hybrid) == {"softmax", "dense softmax", "hybrid"}
    assert chosen_among(device, pattern=SLIDING, **series) == {"softmax", "dense softmax", "window"}
    assert chosen_among(device, pattern=Pattern("block-causal", window=4), **hybrid) == {"softmax", "dense softmax"}
    assert chosen_among(device, dropout_p=0.5, **series) == {"softmax"}
    assert chosen_among(device, mechanism="series") == {"taylor", "dense taylor"}


def test_weights_that_take_much_memory_or_little_time_less_are_not_held(device: Device) -> None:
    device.prefer("dense softmax")
    length = int((MOST_WEIGHTS / 4) ** 0.5)
    assert choose(*operands(length, B=1, A=1, G=1, dtype=torch.float32)).name == "dense softmax"
    assert choose(*operands(length + 1, B=1, A=1, G=1, dtype=torch.float32)).name == "softmax"
    assert choose(*operands(2**10, B=1, A=8, G=8, dtype=torch.float32)).name == "softmax"  # as many as the limit
    assert choose(*operands(dtype=torch.bfloat16)).name == "softmax"
    for ratio, name in ((0.97, "softmax"), (0.9, "dense softmax")):
        device.forget()
        rates = {"softmax": 1.0, "dense softmax": ratio}
        device.monkeypatch.setattr(
            calibration, "_measured", lambda way, *_, r=rates: Rates({}, {"calls": r[way.name]}, DAY)
        )
        assert choose(*operands(dtype=torch.float32, T=9), refresh=True).name == name


def test_the_choice_says_why(device: Device) -> None:
    device.prefer("window")
    q, k, v = operands(4096, B=1, A=1, G=1, dtype=torch.float32)
    assert str(choose(q, k, v, pattern=Pattern("sliding", window=64))) == (
        f"window: 1 ms predicted against 1 s for softmax with a dense mask (T=4,096, W=64; cpu, calibrated {DAY})"
    )
    choice = choose(*operands(7, 9, dtype=torch.float32), order=2, window=3)
    assert str(choice) == (
        "softmax: 1 s predicted against 1 s for dense softmax and 1 s for hybrid "
        f"(T=7, S=9, W=3; cpu, calibrated {DAY})"
    )
    assert choice.seconds == {"softmax": 1.0, "dense softmax": 1.0, "hybrid": 1.0}
    many = operands(8192, B=1, A=1, G=1, dtype=torch.float32)
    assert str(choose(*many)) == "softmax: the only way to this answer (T=8,192; cpu)"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("softmax", {}),
        ("causal softmax", {"pattern": CAUSAL}),
        ("softmax with a dense mask", {"pattern": CAUSAL, "offset": 1}),
        ("softmax", {"pattern": CAUSAL, "offset": 6}),
        ("softmax with a dense mask", {"pattern": CAUSAL, "key_padding": torch.zeros(2, 7, dtype=torch.bool)}),
        ("softmax with a dense mask", {"pattern": Pattern("sliding", window=3, ahead=1, dilation=2)}),
        ("softmax with a dense mask", {"pattern": Pattern("block", window=3, causal_inside=True)}),
        ("causal softmax", {"pattern": Pattern("sliding", window=7)}),
    ],
)
def test_what_is_asked_is_what_was_said(kind: str, settings: dict[str, Any]) -> None:
    choice = choose(*operands(7), **settings)
    assert WAYS["softmax"].kind(choice.asked) == kind
    pattern = settings.get("pattern", FULL)
    assert choice.asked.pattern == (CAUSAL if pattern.window == 7 else pattern)


def test_where_there_is_one_way_nothing_is_measured(device: Device) -> None:
    q, k, v = operands(dtype=torch.bfloat16)
    attention(q, k, v)
    assert device.measured == []


def test_forward_alone_has_rates_of_its_own(device: Device) -> None:
    rates = {"softmax": ({"calls": 1.0}, {"calls": 4.0}), "dense softmax": ({"calls": 3.0}, {"calls": 2.0})}
    device.monkeypatch.setattr(calibration, "_measured", lambda way, *_: Rates(*rates[way.name], DAY))
    q, k, v = operands()
    assert choose(q, k, v).name == "dense softmax"
    with torch.no_grad():
        assert choose(q, k, v).name == "softmax"
    assert choose(q.detach(), k.detach(), v.detach()).seconds == {"softmax": 1.0, "dense softmax": 3.0}


def kept(tmp_path: Path) -> Path:
    (file,) = (tmp_path / "porism" / "mechanisms").iterdir()
    return file


def test_a_device_is_measured_once(device: Device, tmp_path: Path) -> None:
    q, k, v = operands()
    for _ in range(2):
        attention(q, k, v, pattern=SLIDING)
        device.forget()
    assert device.measured == ["softmax with a dense mask", "window", "dense softmax with a mask"]
    # What another pattern needs is measured when it is, and kept beside the rest.
    attention(q, k, v, pattern=Pattern("block", window=4))
    device.forget()
    attention(q, k, v, pattern=SLIDING)
    assert device.measured[3:] == ["window in blocks"]
    assert kept(tmp_path).name.endswith(f"float64_torch-{torch.__version__.replace('+', '-')}.json")


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"version": 3}', b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_measured_anew(device: Device, tmp_path: Path, content: bytes) -> None:
    q, k, v = operands()
    choose(q, k, v)
    kept(tmp_path).write_bytes(content)
    device.forget()
    choose(q, k, v)
    assert device.measured == ["softmax", "dense softmax"] * 2
    device.forget()
    choose(q, k, v)
    assert len(device.measured) == 4


def test_another_version_measures_anew(device: Device, tmp_path: Path) -> None:
    q, k, v = operands()
    choose(q, k, v)
    device.forget()
    device.monkeypatch.setattr(calibration, "__version__", "another")
    choose(q, k, v)
    assert len(device.measured) == 4


def test_types_and_threads_are_kept_apart(device: Device, tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    choose(*operands())
    choose(*operands(dtype=torch.float32))
    try:
        torch.set_num_threads(threads + 1)
        choose(*operands())
    finally:
        torch.set_num_threads(threads)
    assert len(device.measured) == 6
    assert len(list((tmp_path / "porism" / "mechanisms").iterdir())) == 3


def test_what_other_work_has_disturbed_is_used_and_not_kept(device: Device, tmp_path: Path) -> None:
    device.disturbed = 0.5
    q, k, v = operands()
    for _ in range(2):
        assert choose(q, k, v).calibrated == f"{DAY} while other work disturbed it"
    assert device.measured == ["softmax", "dense softmax"]
    assert not (tmp_path / "porism").exists()


def test_refresh_measures_again(device: Device) -> None:
    q, k, v = operands()
    assert choose(q, k, v).name == "softmax"
    device.favourite = "dense softmax"
    assert choose(q, k, v).name == "softmax"
    assert choose(q, k, v, refresh=True).name == "dense softmax"
    assert choose(q, k, v).name == "dense softmax"
    assert device.measured == ["softmax", "dense softmax"] * 2


def test_tensors_that_stand_in_for_others_measure_nothing(device: Device) -> None:
    q, k, v = operands(65, H=3, device="meta", dtype=torch.float32)
    choice = choose(q, k, v, pattern=SLIDING)
    assert attention(q, k, v, pattern=SLIDING).shape == q.shape
    assert str(choice).startswith("window: 0.000")
    assert str(choice).endswith("(T=65, W=5; meta, not calibrated)")
    assert choose(q, k, v).name == "softmax"
    with FakeTensorMode():
        fake = operands(65, dtype=torch.float64)
        assert choose(*fake, pattern=SLIDING).name == "window"
        attention(*fake, pattern=SLIDING)
    assert device.measured == []
    choose(*operands(65), pattern=SLIDING)
    with FakeTensorMode():
        choice = choose(*operands(65), pattern=SLIDING)
        assert (choice.name, choice.calibrated) == ("softmax", DAY)


def test_a_measurement_is_no_part_of_what_is_counted(device: Device) -> None:
    q, k, v = operands(9, dtype=torch.float32)

    def measure(way: Way, kind: str, asked: Question) -> Rates:
        torch.randn(64, 64) @ torch.randn(64, 64)
        return device.measure(way, kind, asked)

    device.monkeypatch.setattr(calibration, "_measured", measure)
    counted = count(lambda *x: attention(*x, pattern=SLIDING), q, k, v)
    assert device.measured
    assert counted.flops == count(lambda *x: softmax_attention(*x, pattern=SLIDING), q, k, v).flops


COUNTED = Question(B=2, A=3, T=320, S=320, D=4, H=6, pattern=FULL, order=2, window=40)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        pytest.param(name, pattern, id=f"{name}, {pattern.kind}")
        for pattern in (FULL, CAUSAL, Pattern("sliding", window=40), Pattern("block", window=48))
        for name, way in WAYS.items()
        if way.answers(replace(COUNTED, pattern=pattern))
    ],
)
def test_the_flops_of_a_way_are_those_that_are_counted(name: str, pattern: Pattern) -> None:
    # A count has the whole square for the fused kernel, and so has a text that is no longer than one of its blocks.
    asked = replace(COUNTED, pattern=pattern)
    with FakeTensorMode(allow_non_fake_inputs=True):
        q, k, v = operands(320, B=2, A=3, G=3, D=4, H=6, dtype=torch.float32)
        options = Options(pattern, order=2, window=40)
        counted = count(lambda q, k, v: WAYS[name].attend(q, k, v, options), q, k, v)
    assert work(name, replace(asked, backward=False))["flops"] == counted.flops
    assert work(name, asked)["flops"] == counted.flops + counted.backward_flops


@pytest.mark.parametrize(("kind", "name"), KINDS.items())
@pytest.mark.parametrize("where", ["cpu", "cuda:0"])
def test_the_examples_of_a_kind_are_of_that_kind(kind: str, name: str, where: str) -> None:
    found = examples(kind, where, threads=2)
    asked = [replace(example, dtype=torch.float32) for example in found]
    assert {WAYS[name].kind(example) for example in asked} == {kind}
    # More of them than rates to find, and from small to large.
    assert len(asked) > len(work(name, asked[0]))
    assert work(name, asked[-1])["flops"] > 100 * work(name, asked[0])["flops"]


def test_the_benchmark_is_held_at_other_sizes_than_a_calibration() -> None:
    grid = benchmark_cases()
    assert len(grid) == 30
    assert {case.pattern.kind for case in grid} == {"full", "causal", "sliding", "block"}
    lengths, widths = ({case.sizes[place] for case in grid} for place in (2, 3))
    calibrated = [example for kind in KINDS for example in examples(kind, "cpu")]
    assert not lengths & {example.T for example in calibrated}
    assert not widths & {example.D for example in calibrated}


def test_rates_are_found_from_sums_and_none_is_below_zero() -> None:
    amounts = [{"calls": 1.0, "pairs": T**2, "numbers": T} for T in (1.0, 3.0, 10.0, 50.0)]
    found = fit(amounts, [some["calls"] * 0.5 + some["pairs"] * 0.25 for some in amounts])
    assert [found["calls"], found["pairs"], found.get("numbers", 0.0)] == pytest.approx([0.5, 0.25, 0.0], abs=1e-12)
    # Times that fall with the length can only be told by a rate below zero.
    falling = fit([{"calls": 1.0, "pairs": T} for T in (1.0, 2.0, 3.0)], [3.0, 2.0, 1.0])
    assert set(falling) == {"calls"}


def test_a_calibration_leaves_the_one_that_asks_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [Question(B=1, A=2, T=T, S=T, D=4, H=4, pattern=SLIDING) for T in (7, 9, 12, 40)]
    monkeypatch.undo()
    monkeypatch.setattr(
        calibration, "examples", lambda *_, backward, **__: [replace(x, backward=backward) for x in few]
    )
    monkeypatch.setattr(calibration, "PATIENCE", 0.0)
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    rates = calibration._measured(WAYS["window"], "window", few[0])
    assert torch.equal(torch.rand(3), wanted)
    for backward in (False, True):
        assert rates.seconds(work("window", replace(few[0], backward=backward)), backward) > 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch.compile itself calls what torch deprecates
@pytest.mark.parametrize("dynamic", [None, True])
def test_compiles_without_breaks_and_chooses_by_sizes(device: Device, dynamic: bool | None) -> None:
    def near(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # A pattern that is made while the compiler traces.
        return attention(q, k, v, pattern=Pattern("sliding", window=5))

    device.prefer("window")
    asked: list[Question] = []

    def spy(asks: Question, mechanism: str) -> Choice:
        asked.append(asks)
        return decide(asks, mechanism)

    device.monkeypatch.setattr(operation, "decide", spy)
    compiled = torch.compile(near, fullgraph=True, backend="eager", dynamic=dynamic)
    for T in (3, 40, 65):
        q, k, v = operands(T, dtype=torch.float32)
        found = compiled(q, k, v)
        traced = asked[-1]
        assert torch.equal(found, near(q, k, v))
        assert (traced.T, traced.pattern) == (T, CAUSAL if T == 3 else SLIDING)
    torch._dynamo.reset()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"mechanism": "flash"},
            "there is no mechanism 'flash'. Choose from 'auto', 'series', 'softmax', 'window', 'dense softmax', ",
        ),
        ({"mechanism": "window"}, "mechanism 'window' came with a full pattern, which has no window. Give a sliding"),
        (
            {"mechanism": "window", "pattern": Pattern("block-causal", window=4)},
            "mechanism 'window' came with a block-causal pattern, which has no window.",
        ),
        ({"mechanism": "taylor", "pattern": SLIDING}, "a sliding pattern forgets keys, and a running sum cannot."),
        ({"mechanism": "series", "pattern": SLIDING}, "a sliding pattern forgets keys, and a running sum cannot."),
        (
            {"mechanism": "dense taylor", "pattern": SLIDING},
            "a sliding pattern forgets keys, and a running sum cannot.",
        ),
        ({"mechanism": "series", "dropout_p": 0.1}, "dropout_p is 0.1, and the series has no single weights to drop"),
        ({"mechanism": "hybrid"}, "mechanism 'hybrid' came without a window. Give window=64 or so"),
        ({"mechanism": "hybrid", "window": 4, "pattern": SLIDING}, "the pattern is sliding, wanted full or causal"),
        ({"mechanism": "dense softmax", "dropout_p": 0.1}, "'dense softmax' came with cumulative_lengths or dropout_p"),
        ({"mechanism": "softmax", "order": 2}, "order is 2, and mechanism 'softmax' has no series. Leave it out, or"),
        ({"order": 3}, "order 3 is odd"),
        ({"mechanism": "window", "window": 4}, "window is 4, and mechanism 'window' has none beside its pattern's."),
        ({"window": 4}, "window is 4 without an order, so there is no series beyond it. Give order=2 too, or"),
        ({"window": 0, "order": 2}, "window is 0. Give a whole number from 1 on: the keys that stay exact."),
        ({"state": ()}, "a state came, and every mechanism has one of its own. Continue a text with softmax_decode, "),
        ({"dropout_p": 1.5}, "dropout_p is 1.5. Give the probability of dropping"),
    ],
)
def test_what_cannot_be_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ShapeError, match=message.replace("(", r"\(")) as refused:
        attention(*operands(), **settings)
    assert "\n" not in str(refused.value)


def test_wrong_shapes_are_refused_by_name() -> None:
    q, k, v = operands()
    with pytest.raises(ShapeError, match="attention: k is .*, wanted 4 sizes: batch, heads, length, width."):
        attention(q, k[0], v)
    with pytest.raises(ShapeError, match="Keys and queries meet in a product."):
        attention(q, k[..., :2], v)
    with pytest.raises(ShapeError, match="mechanism 'taylor' leaves nothing to choose. Give 'auto' or 'series'."):
        choose(q, k, v, mechanism="taylor")


def test_the_layer_is_the_one_of_its_pattern(device: Device) -> None:
    x = torch.randn(2, 40, 12)
    plain, near = Attention(12, 3, batch_first=True), WindowAttention(12, 3, window=5, batch_first=True)
    for layer, pattern, causal in ((plain, FULL, False), (plain, FULL, True), (near, SLIDING, False)):
        auto = AutoAttention(12, 3, pattern=pattern, batch_first=True)
        auto.load_state_dict(layer.state_dict())
        for name in EXACT:
            device.prefer(name)
            torch.testing.assert_close(auto(x, is_causal=causal)[0], layer(x, is_causal=causal)[0])


def test_decoding_equals_the_whole_pass() -> None:
    x = torch.randn(2, 9, 12)
    for pattern in (FULL, SLIDING):
        layer = AutoAttention(12, 3, pattern=pattern, batch_first=True)
        whole, state, parts = layer(x, is_causal=True)[0], None, []
        for token in x.split(1, dim=1):
            y, state = layer.decode(token, state)
            parts.append(y)
        torch.testing.assert_close(torch.cat(parts, dim=1), whole)


def test_the_layer_refuses_what_it_cannot_decode() -> None:
    x = torch.randn(9, 2, 12)
    with pytest.raises(ShapeError, match="with an order may go two ways, and a state fits only one of them."):
        AutoAttention(12, 3, order=2).decode(x)
    ahead = AutoAttention(12, 3, pattern=Pattern("sliding", window=3, ahead=1))
    for call in (ahead.decode, lambda x: ahead(x, is_causal=True)):
        with pytest.raises(
            ShapeError, match="a layer whose sliding pattern looks ahead. Give a pattern that does not."
        ):
            call(x)
    with pytest.raises(ShapeError, match="window is 4 without an order"):
        AutoAttention(12, 3, window=4)

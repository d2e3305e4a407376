"""Code that looks at numbers: of its data, of constants, of integers that go in; and models of transformers that do."""

from typing import Any

import pytest
import torch
from tests.costing.net import Net, stops_early
from tests.costing.real_run import really_kept
from torch import Tensor, nn

from porism import cost
from porism.costing.counting import target

pytestmark = pytest.mark.sample(10)


def picks_rows(net: Net, x: Tensor) -> Any:
    return net.linear(x[x.sum(-1) > 0])


@pytest.mark.parametrize(("run", "low", "high"), [(stops_early, 1024, 2048), (picks_rows, 0, 1024)])
def test_a_cost_that_depends_on_the_data_is_a_range(run: Any, low: int, high: int) -> None:
    found = cost(Net(run), "B T 8")
    flops = found.at(B=2, T=4).flops
    assert (flops.label, flops.low, flops.high) == ("range", low, high)
    assert "depend on the data" in found.verdict


def halts(net: Net, x: Tensor) -> Any:
    for _ in range(10):
        x = net.linear(x)
        if x.mean() > 10:  # no draw comes so far
            break
    return x


def halts_on_random_numbers(net: Net, x: Tensor) -> Any:
    return net.linear(x) if torch.rand(1) < 1e-9 else net.linear(net.linear(x))


@pytest.mark.parametrize(("run", "low", "high"), [(halts, 1, 10), (halts_on_random_numbers, 1, 2)])
def test_a_path_that_no_draw_takes_is_part_of_the_range(run: Any, low: int, high: int) -> None:
    flops = cost(Net(run), "B T 8").at(B=2, T=4).flops
    assert (flops.label, flops.low, flops.high) == ("range", low * 1024, high * 1024)


@pytest.mark.sweep(0)
def test_a_loop_that_the_data_ends_may_have_no_end() -> None:
    def until_small(net: Net, x: Tensor) -> Any:
        while x.abs().mean() > 0.5:
            x = 0.1 * net.linear(x)
        return x

    flops = cost(Net(until_small), "B T 8").at(B=2, T=4).flops
    assert flops.label == "lower bound"
    assert "run without end" in flops.why


def test_a_condition_on_no_data_is_no_range() -> None:
    def checks(net: Net, x: Tensor) -> Any:
        x = net.linear(x)
        return x if x.numel() and torch.ones(3).sum().gt(2).item() else net.linear(x)

    assert cost(Net(checks), "B T 8").at(B=2, T=4).flops == 1024


def test_torch_cond_takes_either_branch() -> None:
    def branches(x: Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x @ x.mT).sum(0), lambda x: x.sum(1), (x,))

    flops = cost(branches, "B D").at(B=2, D=3).flops
    assert (flops.label, flops.low, flops.high) == ("range", 0, 24)
    by_size = cost(lambda x: torch.cond(x.shape[0] > 0, lambda x: x @ x.mT, lambda x: x, (x,)), "B D")
    assert str(by_size.flops) == "2*B**2*D"


def test_a_mask_is_random_and_both_extremes() -> None:
    found = cost(lambda x, m: x[m] @ x.new_ones(x.shape[-1], 3), "B D", "B : bool")
    flops = found.at(B=64, D=8).flops
    assert (flops.low, flops.high) == (0, 3072)


def test_rows_that_a_table_does_not_have_are_refused_at_every_size() -> None:
    def positions(net: Net, x: Tensor) -> Any:
        return net.linear(x + net.linear.weight.new_zeros(200, 8)[torch.arange(x.shape[1])])

    found = cost(Net(positions), "B T 8")
    assert found.at(B=1, T=200).flops == 2 * 200 * 64
    assert found.at(B=1, T=201).flops.label == "unknown"
    assert found.solve("T", flops=1e9, B=1) == 200


SMALL = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 4, "intermediate_size": 32, "num_hidden_layers": 1}


@pytest.mark.sweep(1)
@pytest.mark.parametrize(
    ("name", "options", "training"),
    [
        ("Llama", {"num_key_value_heads": 2, "use_cache": False}, True),
        ("Mistral", {"num_key_value_heads": 2, "use_cache": False, "sliding_window": 16}, True),
        ("GPTNeoX", {"use_cache": False}, False),
    ],
)
def test_transformers_is_counted_as_it_runs(name: str, options: dict[str, Any], training: bool) -> None:
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(**SMALL, **options)
    model = getattr(transformers, f"{name}Model")(config).train(training)
    found = cost(model, "B T : int < 50")
    for T in (12, 40):
        real = really_kept(model, torch.randint(50, (2, T)))
        assert found.at(B=2, T=T).activation_bytes == real
    if name == "Llama":
        assert "T**2" not in str(found.activation_bytes)
        assert found.under(causal="half").flops != found.flops


def test_conditions_on_sizes_are_seen_in_code_that_needs_numbers() -> None:
    def run(net: Net, x: Tensor) -> Any:
        if not x.isfinite().all():
            raise ValueError("numbers that are none")
        return net.linear(x) if x.shape[1] == 2 * x.shape[0] else x

    found = cost(Net(run), "B T 8")
    assert "the code asks T == 2 * B" in found.verdict
    assert found.at(B=2, T=4).flops == 2 * 8 * 64
    assert found.at(B=2, T=4, recount=False).flops.label == "extrapolated"


class Positions(nn.Module):
    """Words and their positions, of which there are 100; a word 0 has none."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.positions = nn.Embedding(5, 8), nn.Embedding(100, 8)

    def forward(self, ids: Tensor) -> Tensor:
        place = (ids != 0).cumsum(1) * (ids != 0)
        result: Tensor = self.table(ids) + self.positions(place)
        return result


def test_rows_that_follow_from_the_words_are_refused_beyond_the_table() -> None:
    found = cost(Positions(), "B T : int < 5")
    assert found.at(B=2, T=90).activation_bytes.label == "by formula"
    assert found.at(B=2, T=400).activation_bytes.label == "unknown"
    with pytest.raises(IndexError):
        Positions()(torch.randint(5, (2, 400)))


def test_integers_without_a_bound_are_rows_of_any_table() -> None:
    """They are 0 or 1, and a table of one row has no second: it takes integers all the same."""
    found = cost(lambda V: nn.Embedding(V, 8), "B : int")
    assert found.at(V=1, B=3).activation_bytes == 24


class Words(nn.Module):
    """An embedding of integers, and a layer that runs only where some of them are 0."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.linear = nn.Embedding(5, 8), nn.Linear(8, 8)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.table(ids)
        return self.linear(x) if (ids == 0).any() else x


def test_integers_that_go_in_are_looked_at_where_weights_have_no_numbers() -> None:
    with torch.device("meta"):
        net = Words()
    flops = cost(net, "B T : int < 5").at(B=2, T=30).flops
    assert (flops.label, flops.low, flops.high) == ("range", 0, 2 * 60 * 64)


PAIRED = {"decoder_layers": 1, "encoder_layers": 1, "decoder_ffn_dim": 32, "encoder_ffn_dim": 32, "d_model": 16}


@pytest.mark.sweep(0)
@pytest.mark.parametrize(
    ("name", "options"), [("M2M100", PAIRED), ("MegatronBert", {"hidden_size": 16, "intermediate_size": 32})]
)
def test_transformers_on_meta_is_counted_as_it_runs(name: str, options: dict[str, Any]) -> None:
    """Its masks are made of ones, or it looks whether words are pads: neither is a reason to count a traced run."""
    transformers = pytest.importorskip("transformers")
    config = getattr(transformers, f"{name}Config")(vocab_size=20, num_hidden_layers=1, **options)
    make = getattr(transformers, f"{name}Model")
    names = ["input_ids", "decoder_input_ids"][: 1 + config.is_encoder_decoder]
    with torch.device("meta"):
        model = make(config).eval()
    found = cost(model, dict.fromkeys(names, "B T : int < 20"))
    kept = really_kept(make(config).eval(), **{name: torch.randint(2, 20, (2, 24)) for name in names})
    assert found.at(B=2, T=24).activation_bytes == kept
    assert found.at(B=2, T=24).activation_bytes.label == "by formula"


def test_weights_of_nested_modules_are_weighed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a deep model would be taken for one that is too large to be run with its numbers."""
    monkeypatch.setattr(target, "LARGEST_REAL", 8 * 8 * 4 + 1)
    nest: nn.Module = nn.Linear(8, 8, bias=False)
    for _ in range(5):
        nest = nn.Sequential(nest)
    assert target.Target(nest, ("B 8",)).has_weights


def test_numbers_of_a_long_row_of_constants_are_read_without_a_long_wait() -> None:
    """Each step reads the one before twice: without memory the time would double at each."""

    def run(net: Net, x: Tensor) -> Any:
        y = torch.ones(3)
        for _ in range(40):
            y = (y + y) / 2
        return net.linear(x) if (y == 1).all() else x

    assert cost(Net(run), "B 8").at(B=5).flops == 2 * 5 * 64

"""Formulas of models that nobody here wrote are those of the textbook."""

import inspect
import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from sympy import Symbol, expand
from tests import needs

import real_models
from porism.costing.alphabet import SYMBOLS, B, D, E, H, N, T
from porism.costing.counting.target import Target
from porism.costing.module_row import KINDS

if TYPE_CHECKING:
    from real_model_cases import Case

# They take seconds to import, which only the process that runs these tests has to wait for.
transformers, models, text, graphs = map(
    needs.lazy, ("transformers", "real_model_cases", "real_model_cases.text", "real_model_cases.graphs")
)
L = Symbol("L", integer=True, positive=True)
RESULT = json.loads((Path(real_models.__file__).parent / "results" / "real_models.json").read_text())


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    yield
    transformers.logging.set_verbosity(before)


def angles(T: Any, head: Any) -> Any:
    """FLOPs of the angles of T positions: earlier versions of transformers multiply them as matrices."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    return T * head if " @ " in inspect.getsource(LlamaRotaryEmbedding.forward) else 0


def narrowed(case: "Case", target: Any) -> "Case":
    """The same case in the letters B, T and D and with one layer, for the sake of time."""
    return replace(case, target=target, largest={})


@pytest.mark.sweep(0)
def test_gpt2() -> None:
    width = 3 * D
    derived = narrowed(models.CASES["gpt2"], lambda D: text.gpt2(3, D, 50, 1)).derive()
    # Words and 1,024 positions; 4 + 8 squares of the width, 13 widths of biases and norms in the layer; a last norm.
    assert expand(derived.parameters - ((50 + 1024) * width + 12 * width**2 + 13 * width + 2 * width)) == 0
    # A token meets every matrix, and every other token in the scores and in the sum of values.
    products = B * T * (12 * width**2 + 2 * T * width + width * 50)
    assert expand(derived.flops - 2 * products) == 0
    # Every product goes back by two.
    assert expand(derived.backward_flops - 4 * products) == 0
    assert derived.uncounted == {}
    assert derived.target.needs_numbers == ""


def test_llama() -> None:
    width = 2 * D
    derived = narrowed(models.CASES["llama"], lambda D: text.llama(2, D, 7, 50, 1)).derive()
    # Words in and out; four squares, three matrices of the feed-forward part and two norms in the layer; a last norm.
    matrices = 4 * width**2 + 3 * width * 7 + width * 50
    assert expand(derived.parameters - (matrices + width * 50 + 2 * width + width)) == 0
    assert expand(derived.flops - 2 * B * T * (matrices + 2 * T * width) - angles(T, D)) == 0
    # A fused kernel computes the scores once more: five products for two.
    assert expand(derived.backward_flops - 2 * B * T * (2 * matrices + 5 * T * width)) == 0
    assert "D in multiples of 2" in derived.verdict


def test_gcnconv() -> None:
    derived = models.CASES["gcnconv"].derive()
    assert expand(derived.parameters - (D * H + H)) == 0
    # The edges and a loop a node: a message along each is multiplied and added, as the sparse product does.
    loops = E + N
    assert expand(derived.flops - 2 * N * D * H - 2 * loops * H) == 0
    # A degree each, its root a node, two factors of it and their products for an edge; a bias is added to every node.
    normalised = loops + N + 2 * loops
    assert expand(derived.under(elementwise=True).flops - derived.flops - normalised - N * H) == 0


def test_a_number_of_layers_is_a_letter() -> None:
    inputs, layers = {"input_ids": "2 5 : int"}, lambda L: text.llama(2, 6, 7, 50, L)
    derived = replace(models.CASES["llama"], target=layers, inputs=inputs, multiples={}).derive()
    matrices = 4 * 12**2 + 3 * 12 * 7
    assert expand(derived.parameters - L * (matrices + 2 * 12) - 12 * (2 * 50 + 1)) == 0
    assert {row.path for row in derived.rows if row.path.count(".") == 2} >= {"model.layers.0", "model.layers.1"}
    assert all(row.formula("flops", derived.conventions) is not None for row in derived.rows)


def test_weights_that_are_looked_at_while_they_are_drawn_need_no_numbers() -> None:
    vit = models.CASES["vit"]
    subject = Target(vit.target, (vit.inputs,))
    counted = subject.count({"B": 1, "P": 2, "A": 2, "D": 3, "H": 5, "L": 1})
    assert subject.needs_numbers == ""
    # A token for each of four patches and one more.
    assert counted.flops == 2 * (4 * 768 * 6 + 5 * (4 * 36 + 2 * 30) + 2 * 25 * 6 + 6 * 1000)


def test_experts_in_two_bytes_need_no_numbers() -> None:
    mixtral = models.CASES["mixtral"]
    subject = Target(mixtral.target, (mixtral.inputs,), dtype=mixtral.dtype)
    counted = subject.count({"B": 1, "T": 3, "A": 1, "D": 8, "H": 16, "V": 5, "G": 4, "L": 1})
    assert subject.needs_numbers == ""
    assert counted.uncounted == {}
    # Keys and values have a quarter of the width; a token meets the router and two experts.
    products = 2 * 32 * 32 + 2 * 32 * 8 + 2 * 3 * 32 + 32 * 4 + 2 * 3 * 32 * 16 + 32 * 5
    assert counted.flops == 2 * 3 * products + angles(3, 8)


def test_seven_billion_parameters_in_little_memory() -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    case = models.CASES["llama-7b"]
    counted = Target(case.target(), (case.inputs,)).count({"B": 1, "T": 7})
    matrices = 32 * (4 * 4096**2 + 3 * 4096 * 11008) + 4096 * 32000
    assert counted.parameters.count == 6_738_415_616
    assert counted.flops == 2 * 7 * (matrices + 32 * 2 * 7 * 4096) + angles(7, 128)
    unit = 1 if sys.platform == "darwin" else 1024
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit < 10**9


def test_edges_make_no_loops() -> None:
    for nodes, count in [(2, 1), (2, 7), (7, 2), (7, 63)]:
        source, target = graphs.edges(nodes, count)
        assert source.shape == target.shape == (count,)
        assert not torch.equal(source, target)
        assert int((source == target).sum()) == 0
        assert max(int(source.max()), int(target.max())) < nodes


def test_the_result_has_every_model_and_no_failure() -> None:
    assert [result["model"] for result in RESULT["results"]] == list(models.CASES)
    assert [real_models.failures(result) for result in RESULT["results"]] == [[]] * len(models.CASES)
    assert all(formula for result in RESULT["results"] for formula in result["formulas"].values())


def test_a_wrong_formula_an_uncounted_operator_and_a_slow_run_are_failures() -> None:
    large = next(result for result in RESULT["results"] if result["model"] == real_models.LARGE)
    wrong = large | {"predicted": large["predicted"] | {"flops": 1}, "uncounted": ["roll"], "seconds": 61.0}
    counted = f"{large['counted']['flops']:,}"
    assert real_models.failures(wrong) == [
        "roll was not counted",
        f"flops is {counted} at the published sizes, 1 by its formula",
        f"it took 61.0 s and {large['peak_bytes'] / 1e9:.2f} GB",
    ]


def test_the_table_has_every_formula_and_what_stays_a_number() -> None:
    table = real_models.markdown(RESULT)
    for result in RESULT["results"]:
        assert f"**{result['model']}**" in table
        assert result["stays_a_number"] in table
        assert all(f"`{formula}`" in table for formula in result["formulas"].values())


def test_every_letter_has_a_meaning_and_published_sizes() -> None:
    for case in models.CASES.values():
        target = case.target if case.target.__code__.co_argcount else case.target()
        letters = Target(target, (case.inputs,), dtype=case.dtype).letters
        assert set(case.published) == set(letters)
        assert set(case.meanings(letters)) == set(letters)
        assert set(case.letters) <= {*letters, *SYMBOLS}


def check_kept(name: str, library: str) -> None:
    """The formulas of the table are those that are derived today, of the library that they were made for."""
    if version(library) != (made := RESULT["versions"][library]):
        pytest.skip(f"the table is of {library} {made}, and {version(library)} is installed")
    derived = models.CASES[name].derive()
    kept = next(result for result in RESULT["results"] if result["model"] == name)["formulas"]
    today = {kind: str(derived.rows[0].formula(kind, derived.conventions)) for kind in KINDS}
    assert today == {kind: kept[kind] for kind in KINDS}


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", ["gcnconv", "gatconv", "sageconv"])
def test_kept_formulas_of_graph_layers_are_those_of_today(name: str) -> None:
    check_kept(name, "torch_geometric")


@pytest.mark.sweep(0)
@pytest.mark.parametrize("name", ["gpt2", "bert", "llama", "mixtral", "vit"])
def test_kept_formulas_of_other_models_are_those_of_today(name: str) -> None:
    check_kept(name, "transformers")

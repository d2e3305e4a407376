"""The formulas say what each order of the products costs, and which is cheaper."""

import pytest
import torch
from tests.layers.gcn.graphs import drawn

from porism.costing.counting.count import count
from porism.costing.derive import derive
from porism.costing.terms import Terms
from porism.layers.gcn import Graph, GraphConvolution, SparseFeatures
from porism.layers.gcn.cost import cost, project_first_cost, propagate_first_cost, subject
from porism.layers.gcn.functional import project_first


def counted(D: int, H: int, first: bool | None, monkeypatch: pytest.MonkeyPatch) -> tuple[int, int, dict[str, int]]:
    edges, _ = drawn(63)
    graph = Graph(edges, num_nodes=63)
    if first is not None:
        monkeypatch.setattr("porism.layers.gcn.functional.project_first", lambda *_: first)
    layer, x = GraphConvolution(D, H), torch.randn(63, D, requires_grad=True)
    run = count(layer, x, graph)
    assert not run.uncounted
    return run.flops, run.backward_flops, {"N": 63, "E": graph.propagation().there.stored, "D": D, "H": H}


@pytest.mark.parametrize(("D", "H"), [(5, 2), (2, 5), (3, 3)])
@pytest.mark.parametrize(
    ("first", "formula"), [(True, project_first_cost), (False, propagate_first_cost), (None, cost)]
)
def test_each_order_costs_what_its_formula_says(
    D: int, H: int, first: bool | None, formula: type[Terms], monkeypatch: pytest.MonkeyPatch
) -> None:
    flops, backward, sizes = counted(D, H, first, monkeypatch)
    expected = formula().at(**sizes)
    assert (flops, backward) == (expected["flops"], expected["backward_flops"])


@pytest.mark.parametrize(("D", "H"), [(1433, 16), (16, 7), (7, 16), (64, 64)])
def test_the_order_chosen_is_that_of_the_smaller_formula(D: int, H: int) -> None:
    sizes = {"N": 2708, "E": 13264, "D": D, "H": H}
    projecting, propagating = (formula().at(**sizes)["flops"] for formula in (project_first_cost, propagate_first_cost))
    assert project_first(D, H) == (projecting <= propagating)
    assert cost().at(**sizes)["flops"] == min(projecting, propagating)


@pytest.mark.parametrize(("D", "H"), [(5, 3), (5, 2), (2, 5)])
def test_features_that_are_given_take_the_order_that_is_cheaper_to_learn_with(
    D: int, H: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges, _ = drawn(63)
    graph, x = Graph(edges, num_nodes=63), torch.randn(63, D)

    def work(first: bool | None) -> int:
        with monkeypatch.context() as patch:
            if first is not None:
                patch.setattr("porism.layers.gcn.functional.project_first", lambda *_: first)
            run = count(GraphConvolution(D, H), x, graph)
        return run.flops + run.backward_flops

    assert work(None) == min(work(True), work(False))


def test_sparse_features_cost_what_they_store() -> None:
    edges, _ = drawn(63)
    graph = Graph(edges, num_nodes=63)
    x = SparseFeatures.from_dense(torch.randn(63, 17) * (torch.rand(63, 17) < 0.2))
    run = count(GraphConvolution(17, 5), x, graph)
    stored, E = x.there.stored, graph.propagation().there.stored
    assert (run.flops, run.backward_flops) == (2 * 5 * (stored + E),) * 2
    assert not run.uncounted


def test_the_formula_is_found_from_the_code() -> None:
    module, inputs = subject()
    actual = derive(module, *inputs)
    for sizes in ({"D": 1433, "H": 16}, {"D": 16, "H": 64}):
        sizes |= {"N": 2708, "E": 13264}
        expected = cost().at(**sizes)
        at = actual.at(recount=False, **sizes)
        assert (int(at["flops"]), int(at["backward_flops"])) == (expected["flops"], expected["backward_flops"])

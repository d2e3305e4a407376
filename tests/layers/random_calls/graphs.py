"""Random calls of the graph convolution."""

from typing import Any

import torch
from tests.layers.random_calls.call import Call, Leaves
from tests.layers.random_calls.draw import Draw, spoiled
from torch import Tensor

from porism.layers import Graph
from porism.layers.gcn import naive
from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.functional import Propagated, graph_convolution

NORMALIZATIONS = ("none", "rw", "sym", "softmax")


def graph_call(draw: Draw) -> Call:
    dtype = draw.dtype()
    N, D, H, E = draw.one_of(1, 2, 5, 11), draw.one_of(1, 3, 6), draw.one_of(1, 2, 5), draw.one_of(0, 1, 7, 30)
    edges = draw.indices(N, 2, E).to(draw.one_of(torch.int64, torch.int32, torch.int16, torch.uint8))
    weights = draw.normal(E).abs() + 0.1 if draw.happens(0.4) else None
    normalization, loops = draw.one_of(*NORMALIZATIONS), draw.happens(0.8)
    operands = {"x": draw.operand((N, D), dtype), "weight": draw.operand((H, D), dtype)}
    if draw.happens(0.6):
        operands["bias"] = draw.operand((H,), dtype)
    form = draw.one_of("dense", "dense", "sparse", "propagated") if dtype in (torch.float32, torch.float64) else "dense"
    mistake = _mistake(draw, N, E) if draw.happens(0.2) else None

    made: dict[str, Any] = {"edge_index": edges, "num_nodes": N, "edge_weight": weights}
    known = Graph(**made)

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        graph = known
        if mistake is not None:
            wrong = dict(made)
            mistake[1](views, wrong)
            graph = Graph(**wrong)
        x = views["x"]
        if form != "dense" and torch.compiler.is_compiling():
            # The graph breaks below, and torch cannot give a negated view out of a compiled part: an internal assert.
            x = x.resolve_neg()
        if form == "sparse" and mistake is None:
            x = SparseFeatures.from_dense(x.detach())
        elif form == "propagated" and mistake is None:
            x = Propagated.of(x.detach(), graph, normalization, loops)
        return graph_convolution(
            x, graph, views["weight"], views.get("bias"), normalization=normalization, add_self_loops=loops
        )

    def oracle(given: Leaves) -> Tensor:
        x, weight, *bias = (operand.view(given[name]) for name, operand in operands.items())
        whole = edges.long().cpu()
        A = naive.adjacency(whole, N, None if weights is None else weights.cpu(), loops)
        spread = naive.normalized(A, naive.is_edge(whole, N, loops), normalization).to(draw.device)
        features = x.detach() if form != "dense" and mistake is None else x
        y = spread @ features @ weight.mT
        return y + bias[0] if bias else y

    leaves = {name: operand.leaf for name, operand in operands.items()}
    about = (
        f"N={N} E={E} {edges.dtype} weights={weights is not None} {normalization} loops={loops} {form} "
        + ", ".join(f"{name} {tuple(operand.leaf.shape)} {operand.layout}" for name, operand in operands.items())
        + (f" mistake: {mistake[0]}" if mistake else "")
    )
    return Call(
        "graph convolution", about, leaves, dtype, ours, oracle, mistake is not None, terms=8.0,
        in_place=draw.happens(0.1), autocast=mistake is None and dtype == torch.float64 and draw.happens(0.2),
    )  # fmt: skip


def _mistake(draw: Draw, N: int, E: int) -> tuple[str, Any]:
    edges: dict[str, Any] = {
        "edge_index": draw.one_of(
            torch.full((2, 1), N), torch.full((2, 1), -1), torch.zeros(2, 1), torch.zeros(3, 1).long(),
            torch.zeros(2, 1, dtype=torch.bool), torch.zeros(2, 1, dtype=torch.complex64),
        ),
        "num_nodes": draw.one_of(0, -1, 2.5, True, "3", 10**30),
        "edge_weight": draw.one_of(
            torch.ones(E + 1), torch.full((max(1, E),), float("nan")), torch.ones(E, dtype=torch.complex64)
        ),
    }  # fmt: skip
    if draw.happens(0.6):
        name, seed = draw.one_of("x", "weight"), draw.whole(0, 10**6)
        # Features may have any dimensions before their nodes, so one more is no mistake.
        if name == "x" and spoiled(Draw(seed), torch.zeros(1, 1))[0] == "one dimension more":
            name = "weight"

        def change(views: dict[str, Any], made: dict[str, Any]) -> None:
            views[name] = spoiled(Draw(seed), views[name])[1]

        return f"{name}: {spoiled(Draw(seed), torch.zeros(1, 1))[0]}", change
    key = draw.random.choice(sorted(edges))

    def set_edges(views: dict[str, Any], made: dict[str, Any]) -> None:
        made[key] = edges[key]

    return f"{key} {edges[key]}", set_edges

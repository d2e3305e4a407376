"""Random calls of the losses over a vocabulary: the readout, and skip-gram with its estimators."""

from typing import Any

import torch
from tests.layers.random_calls.call import Call, Leaves
from tests.layers.random_calls.draw import Draw, spoiled
from torch import Tensor
from torch.nn.functional import cross_entropy

from porism.layers import SkipGram
from porism.layers.readout.functional import linear_cross_entropy
from porism.layers.skipgram import naive as skipgram_naive
from porism.layers.skipgram.functional import sampled_loss

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
ESTIMATORS = ("self-normalised", "sampled-softmax", "nce", "negative")


def readout_call(draw: Draw) -> Call:
    dtype = draw.dtype()
    H, V, rows = draw.one_of(1, 2, 5), draw.one_of(1, 2, 9, 30), draw.one_of((1,), (2, 3), (7,), (5, 1), ())
    operands = {"h": draw.operand((*rows, H), dtype), "weight": draw.operand((V, H), dtype, draw.one_of(1.0, 4.0))}
    if draw.happens(0.6):
        operands["bias"] = draw.operand((V,), dtype)
    targets = draw.indices(V, *rows).to(draw.one_of(*INTEGERS))
    reduction, block = draw.one_of("mean", "sum"), draw.one_of(None, 1, 3, 1000)
    mistake = _mistake(draw, targets, V) if draw.happens(0.25) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        views["targets"] = targets
        if mistake is not None:
            mistake[1](views)
        return linear_cross_entropy(
            views["h"],
            views["weight"],
            views["targets"],
            linear_bias=views.get("bias"),
            reduction=reduction,
            batch_chunk_size=block,
        )

    def oracle(given: Leaves) -> Tensor:
        h, weight, *bias = (operand.view(given[name]) for name, operand in operands.items())
        z = h @ weight.mT
        z = z + bias[0] if bias else z
        return cross_entropy(z.reshape(-1, V), targets.reshape(-1).long(), reduction=reduction)

    leaves = {name: operand.leaf for name, operand in operands.items()}
    about = f"{reduction} block={block} targets {targets.dtype} " + ", ".join(
        f"{name} {tuple(operand.leaf.shape)} {operand.layout}" for name, operand in operands.items()
    )
    return Call(
        "linear_cross_entropy", about + (f" mistake: {mistake[0]}" if mistake else ""), leaves, dtype, ours, oracle,
        mistake is not None, terms=8.0, autocast=mistake is None and dtype in (torch.float32, torch.float64)
        and draw.happens(0.15),
    )  # fmt: skip


def sampled_call(draw: Draw) -> Call:
    dtype, estimator = draw.one_of(torch.float64, torch.float64, torch.float32), draw.one_of(*ESTIMATORS)
    B, D, V, m = draw.one_of(1, 2, 5), draw.one_of(1, 3, 6), draw.one_of(1, 4, 11), draw.one_of(1, 2, 5)
    operands = {"v": draw.operand((B, D), dtype), "U": draw.operand((V, D), dtype)}
    contexts, samples = draw.indices(V, B), draw.indices(V, B, m)
    kind = draw.one_of(*INTEGERS)
    q = torch.softmax(draw.normal(V), 0)
    mistake = _mistake(draw, contexts, V, ("v", "U"), "contexts") if draw.happens(0.25) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        views["contexts"] = contexts.to(kind)
        if mistake is not None:
            mistake[1](views)
        return sampled_loss(views["v"], views["U"], views["contexts"], samples.to(kind), q, estimator, "sum")

    def oracle(given: Leaves) -> Tensor:
        v, U = (operand.view(given[name]) for name, operand in operands.items())
        return skipgram_naive.sampled_loss(estimator, v, U, contexts, samples, q)

    leaves = {name: operand.leaf for name, operand in operands.items()}
    about = f"{estimator} {kind} " + ", ".join(
        f"{name} {tuple(o.leaf.shape)} {o.layout}" for name, o in operands.items()
    )
    return Call(
        "sampled_loss", about + (f" mistake: {mistake[0]}" if mistake else ""), leaves, dtype, ours, oracle,
        mistake is not None, terms=64.0,
    )  # fmt: skip


def skipgram_call(draw: Draw) -> Call:
    """The layer, by the exact softmax."""
    dtype = draw.one_of(torch.float64, torch.float32)
    B, D, V = draw.one_of(1, 2, 5), draw.one_of(1, 3), draw.one_of(1, 4, 11)
    layer = SkipGram(V, D, device=draw.device, dtype=dtype)
    words, contexts = (draw.indices(V, B).to(draw.one_of(*INTEGERS)) for _ in range(2))
    leaves = {"weight": draw.normal(V, D).to(dtype).double(), "context_weight": draw.normal(V, D).to(dtype).double()}
    mistake = _mistake(draw, contexts, V, (), "contexts") if draw.happens(0.25) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {"contexts": contexts}
        if mistake is not None:
            mistake[1](views)
        answer: Tensor = torch.func.functional_call(layer, dict(given), (words, views["contexts"]))
        return answer

    def oracle(given: Leaves) -> Tensor:
        return skipgram_naive.loss(given["weight"][words.long()], given["context_weight"], contexts.long()) / B

    about = f"V={V} D={D} {words.dtype} {contexts.dtype}" + (f" mistake: {mistake[0]}" if mistake else "")
    return Call("skip-gram", about, leaves, dtype, ours, oracle, mistake is not None, terms=8.0)


def _mistake(
    draw: Draw, indices: Tensor, V: int, operands: tuple[str, ...] = ("h", "weight"), name: str = "targets"
) -> tuple[str, Any]:
    if operands and draw.happens(0.5):
        operand, seed = draw.one_of(*operands), draw.whole(0, 10**6)

        def change(views: dict[str, Any]) -> None:
            views[operand] = spoiled(Draw(seed), views[operand])[1]

        return f"{operand}: {spoiled(Draw(seed), torch.zeros(1, 1))[0]}", change
    out = indices.clone().long().view(-1)
    out[draw.whole(0, len(out) - 1)] = draw.one_of(V, -1, -99, V + 1000)
    # On a GPU an index out of range stops the device, and with it every test that follows.
    outside = out.view(indices.shape) if draw.device == "cpu" else indices.float()
    wrong = draw.one_of(
        outside, outside, indices.double(), indices > 0, indices.to("meta"), indices[..., None], indices.tolist()
    )

    def set_indices(views: dict[str, Any]) -> None:
        views[name] = wrong

    return f"{name} {wrong}", set_indices

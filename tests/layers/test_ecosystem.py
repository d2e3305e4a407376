"""Every layer in torch's own tools: torch.func, torch.compile, torch.export, autocast and double backward."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.layers.cases import CASES
from tests.layers.cases.case import Case, Inputs
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacrev, jvp, vmap

from porism.layers import Attention, HybridAttention, TaylorAttention, WindowAttention
from porism.testing.gradients import relative_error

SIZES = {"B": 2, "T": 5, "D": 3, "H": 4, "V": 6, "C": 2, "Y": 3, "X": 4, "N": 7, "E": 12}
EXACT, GRADIENT, BFLOAT16 = 1e-12, 1e-10, 5e-2
MAPPED = 3
Variables = dict[str, Tensor]

# torch.compile and torch.export call what torch deprecates, and vmap tells of kernels that it has to call in a loop.
pytestmark = pytest.mark.filterwarnings("ignore")


WITHOUT_FUNC = ("elman", "grid", "readout", "skipgram")
"""Layers whose autograd Functions torch.func cannot transform yet."""


def layers(*left_out: str) -> pytest.MarkDecorator:
    """Parametrises over all layers but those that a tool does not reach yet."""
    return pytest.mark.parametrize("name", [name for name in CASES if name not in left_out])


class Subject(nn.Module):
    """A layer as the contract calls it, as a function of its parameters and of those inputs that are real numbers."""

    def __init__(self, case: Case, run: Callable[[Any, Inputs], Tensor] | None = None) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = case.build(SIZES).double()
        self.run = run or case.run
        drawn = {name: x.double() if x.is_floating_point() else x for name, x in case.inputs(SIZES).items()}
        self.inputs = {name: x for name, x in drawn.items() if x.is_floating_point()}
        self.fixed = {name: x for name, x in drawn.items() if not x.is_floating_point()}

    def forward(self, inputs: Inputs) -> Tensor:
        return self.run(self.layer, self.fixed | inputs)

    def variables(self) -> Variables:
        return {name: x.detach() for name, x in self.named_parameters()} | self.inputs

    def answer(self, variables: Variables) -> Tensor:
        inputs = {name: x for name, x in variables.items() if name in self.inputs}
        parameters = {name: x for name, x in variables.items() if name not in self.inputs}
        answer: Tensor = functional_call(self, parameters, (inputs,))
        return answer

    def loss(self, variables: Variables) -> Tensor:
        answer = self.answer(variables)
        return (answer.sin() * torch.linspace(-1, 2, answer.numel(), dtype=answer.dtype).view_as(answer)).sum()


def both(name: str) -> tuple[Subject, Subject]:
    """The layer, and the same one answered by its oracle."""
    fast, oracle = Subject(CASES[name]), Subject(CASES[name], CASES[name].naive)
    oracle.load_state_dict(fast.state_dict())
    return fast, oracle


def slopes(subject: Subject, variables: Variables) -> Variables:
    """By autograd itself."""
    leaves = {name: x.detach().requires_grad_() for name, x in variables.items()}
    return dict(zip(leaves, torch.autograd.grad(subject.loss(leaves), list(leaves.values())), strict=True))


def several(variables: Variables) -> list[Variables]:
    """A few sets of the same shapes."""
    return [{name: x + 0.1 * torch.randn_like(x) for name, x in variables.items()} for _ in range(MAPPED)]


def stacked(sets: list[Variables]) -> Variables:
    return {name: torch.stack([one[name] for one in sets]) for name in sets[0]}


def assert_close(found: Variables, wanted: Variables, tolerance: float) -> None:
    assert found.keys() == wanted.keys()
    errors = {name: relative_error(found[name].double(), wanted[name].double()) for name in wanted}
    assert max(errors.values()) <= tolerance, errors


@layers(*WITHOUT_FUNC)
def test_func_grad(name: str) -> None:
    fast, oracle = both(name)
    assert_close(grad(fast.loss)(fast.variables()), slopes(oracle, fast.variables()), GRADIENT)


@layers(*WITHOUT_FUNC)
def test_vmap(name: str) -> None:
    fast, oracle = both(name)
    sets = several(fast.variables())
    wanted = torch.stack([oracle.answer(one) for one in sets])
    assert relative_error(vmap(fast.answer)(stacked(sets)), wanted) <= EXACT


@layers(*WITHOUT_FUNC)
def test_vmap_over_inputs_alone_and_a_dimension_that_is_not_the_first(name: str) -> None:
    fast, oracle = both(name)
    sets = [fast.variables() | {n: one[n] for n in fast.inputs} for one in several(fast.variables())]
    wanted = torch.stack([oracle.answer(one) for one in sets])
    last = {n: torch.stack([one[n] for one in sets], -1) for n in fast.inputs}
    dims = {n: -1 if n in fast.inputs else None for n in fast.variables()}
    assert relative_error(vmap(fast.answer, (dims,))(fast.variables() | last), wanted) <= EXACT


@layers(*WITHOUT_FUNC)
def test_gradients_of_each_example(name: str) -> None:
    fast, oracle = both(name)
    sets = several(fast.variables())
    wanted = stacked([slopes(oracle, one) for one in sets])
    assert_close(vmap(grad(fast.loss))(stacked(sets)), wanted, GRADIENT)
    assert_close(grad(lambda all_sets: vmap(fast.loss)(all_sets).sum())(stacked(sets)), wanted, GRADIENT)


@layers(*WITHOUT_FUNC)
def test_jacrev(name: str) -> None:
    fast, oracle = both(name)
    variables = fast.variables()
    first = next(iter({**fast.inputs, **variables}))
    wanted = torch.autograd.functional.jacobian(lambda x: oracle.answer(variables | {first: x}), variables[first])
    found = jacrev(lambda x: fast.answer(variables | {first: x}))(variables[first])
    assert isinstance(wanted, Tensor)
    assert relative_error(found, wanted) <= GRADIENT


@pytest.mark.sweep(2)
@layers()
def test_compile(name: str) -> None:
    torch.compiler.reset()
    fast, oracle = both(name)
    leaves = {n: x.requires_grad_() for n, x in fast.inputs.items()}
    compiled = torch.compile(fast, fullgraph=True, backend="aot_eager", dynamic=False)
    weights = torch.linspace(-1, 2, fast(leaves).numel(), dtype=torch.float64).view_as(fast(leaves))
    found, wanted = (
        [y, *torch.autograd.grad((y.sin() * weights).sum(), [*leaves.values(), *subject.parameters()])]
        for subject, y in ((fast, compiled(leaves)), (oracle, oracle(leaves)))
    )
    assert max(relative_error(a, b) for a, b in zip(found, wanted, strict=True)) <= GRADIENT


@layers("elman", "readout", "skipgram")
def test_export(name: str) -> None:
    fast, _ = both(name)
    exported = torch.export.export(fast, (fast.inputs,))
    assert relative_error(exported.module()(fast.inputs), fast(fast.inputs)) <= EXACT


@layers()
def test_autocast(name: str) -> None:
    fast, oracle = both(name)
    wanted, exact = oracle(fast.inputs), slopes(oracle, fast.variables())
    single = fast.float()
    leaves = {n: x.detach().float().requires_grad_() for n, x in fast.variables().items()}
    single.inputs = {n: leaves[n] for n in single.inputs}
    with torch.autocast("cpu", torch.bfloat16):
        answer, loss = single.answer(leaves), single.loss(leaves)
    found = dict(zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True))
    assert {x.dtype for x in found.values()} == {torch.float32}
    assert_close({"": answer}, {"": wanted}, BFLOAT16)
    assert_close(found, exact, BFLOAT16)


@layers(*WITHOUT_FUNC)
def test_a_second_derivative_is_right_or_refused_and_so_is_the_forward_mode(name: str) -> None:
    fast, oracle = both(name)
    variables = fast.variables()
    first = next(iter({**fast.inputs, **variables}))
    x = variables[first].requires_grad_()

    def second(subject: Subject) -> Tensor:
        (slope,) = torch.autograd.grad(subject.loss(variables | {first: x}), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), x)[0]

    def forward_mode(subject: Subject) -> Tensor:
        one = x.detach()
        tangent: Tensor = jvp(lambda x: subject.answer(variables | {first: x}), (one,), (one.cos(),))[1]
        return tangent

    refusals = []
    for derivative in (second, forward_mode):
        try:
            found = derivative(fast)
        except (RuntimeError, NotImplementedError) as refusal:
            refusals.append(str(refusal))
        else:
            assert relative_error(found, derivative(oracle)) <= GRADIENT
    words = r"first derivatives only|no forward-mode|is not implemented|not been implemented"
    assert [refusal for refusal in refusals if not re.search(words, refusal)] == []


@pytest.mark.parametrize("enabled", [True, False], ids=["", "no_grad"])
@layers()
def test_a_tangent_is_right_or_refused_and_never_lost(name: str, enabled: bool) -> None:
    """torch.autograd.forward_ad, without a transform: an answer without a tangent would be taken for a constant."""
    fast, oracle = both(name)
    variables = {name: x.detach() for name, x in fast.variables().items()}
    for varied in variables:
        found, wanted = (tangent(subject, variables, varied, enabled) for subject in (fast, oracle))
        if isinstance(found, str):
            assert re.search("no forward-mode|forward AD|not been implemented", found)
        elif isinstance(wanted, Tensor):
            assert isinstance(found, Tensor), varied
            assert relative_error(found, wanted) <= GRADIENT


def tangent(subject: Subject, variables: Variables, varied: str, enabled: bool) -> Tensor | str | None:
    """Of the answer in the direction of a cosine of one variable; or how that is refused."""
    x = variables[varied]
    with torch.set_grad_enabled(enabled), forward_ad.dual_level():
        dual = forward_ad.make_dual(x, x.cos())
        try:
            found: Tensor | None = forward_ad.unpack_dual(subject.answer(variables | {varied: dual})).tangent
            return found
        except (RuntimeError, NotImplementedError) as refusal:
            return str(refusal)


PEERS: dict[str, Callable[[], nn.Module]] = {
    "softmax": lambda: Attention(12, 3, batch_first=True),
    "window": lambda: WindowAttention(12, 3, window_size=2, batch_first=True),
    "taylor": lambda: TaylorAttention(12, 3, batch_first=True, warn_above=None),
    "hybrid": lambda: HybridAttention(12, 3, window_size=2, batch_first=True),
}
TOOLS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "grad": lambda layer, x: grad(lambda x: layer(x, x, x, need_weights=False)[0].sin().sum())(x),
    "vmap": lambda layer, x: vmap(lambda x: layer(x, x, x, need_weights=False)[0])(torch.stack([x, 2 * x])),
    "vmap(grad)": lambda layer, x: vmap(grad(lambda x: layer(x, x, x, need_weights=False)[0].sum()))(x[None]),
    "jacrev": lambda layer, x: jacrev(lambda x: layer(x, x, x, need_weights=False)[0])(x),
    "jvp": lambda layer, x: jvp(lambda x: layer(x, x, x, need_weights=False)[0], (x,), (x,))[1],
    "autocast": lambda layer, x: autocast(layer, x),
    "batched gradients": lambda layer, x: batched_gradients(layer, x),
}


def autocast(layer: nn.Module, x: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        answer: Tensor = layer(x, x, x, need_weights=False)[0]
    return answer


def batched_gradients(layer: nn.Module, x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    answer = layer(x, x, x, need_weights=False)[0]
    return torch.autograd.grad(answer, x, torch.randn(2, *answer.shape), is_grads_batched=True)[0]


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", PEERS)
def test_what_nn_multihead_attention_answers_a_layer_answers_in_the_same_form(name: str, tool: str) -> None:
    torch.manual_seed(0)
    ours, peer = PEERS[name](), nn.MultiheadAttention(12, 3, batch_first=True)
    ours.load_state_dict(peer.state_dict())
    x = torch.randn(2, 5, 12)
    try:
        wanted = TOOLS[tool](peer, x)
    except NotImplementedError:
        with pytest.raises((RuntimeError, NotImplementedError), match=r"no forward-mode|not been implemented"):
            TOOLS[tool](ours, x)
        return
    found = TOOLS[tool](ours, x)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    assert found.isfinite().all()
    if name == "softmax" and tool != "batched gradients":
        assert relative_error(found.double(), wanted.double()) <= (BFLOAT16 if tool == "autocast" else 1e-5)

"""The counters people use, called in one way: what does this call cost, forward and backward?

A peer is given its case as a module with plain tensors to go in, because most take only these; a keyword, a state in
a tuple or a bare function is wrapped away. All answers are in operations, two for a multiply-add: where a peer counts
multiply-adds, its number is doubled here.
"""

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten
from torch.utils.flop_counter import FlopCounterMode

from counter_cases import Call, Case
from porism.costing.counting.count import count
from porism.errors import MissingExtra


@dataclass(frozen=True)
class Answer:
    """What a counter says; None where it gives no number, with the reason where it should have."""

    forward: int | None
    backward: int | None = None
    reason: str = ""


class AsModule(nn.Module):
    """Any call as a module, whose inputs are the call's tensors in a row, by place or by any names."""

    def __init__(self, call: Call) -> None:
        super().__init__()
        self.run = _by_name(call.target)
        self.owner = getattr(call.target, "__self__", None)  # a method's module is to be found as well
        self.leaves, self.structure = tree_flatten((call.args, call.kwargs))

    @property
    def tensors(self) -> list[Tensor]:
        return [leaf for leaf in self.leaves if isinstance(leaf, Tensor)]

    def forward(self, *placed: Tensor, **named: Tensor) -> Any:
        tensors = iter((*placed, *named.values()))
        leaves = [next(tensors) if isinstance(leaf, Tensor) else leaf for leaf in self.leaves]
        args, kwargs = tree_unflatten(leaves, self.structure)
        return self.run(*args, **kwargs)


def _by_name(target: Callable[..., Any]) -> Callable[..., Any]:
    """A function of torch is looked up when it runs, as it is in people's code: a peer may have put its own there."""
    name = getattr(target, "__name__", "")
    for place in (torch, functional):
        if vars(place).get(name) is target:
            return lambda *args, **kwargs: getattr(place, name)(*args, **kwargs)
    return target


def by_porism(call: Call) -> Answer:
    counted = count(call.target, *call.args, **call.kwargs)
    if counted.uncounted:
        raise ValueError(f"not counted: {', '.join(counted.uncounted)}")
    return Answer(counted.flops, counted.backward_flops)


def by_torch(call: Call) -> Answer:
    with FlopCounterMode(display=False) as counter:
        out = call.target(*call.args, **call.kwargs)
        forward = counter.get_total_flops()
        ends = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor) and leaf.requires_grad]
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])
    return Answer(forward, counter.get_total_flops() - forward)


def by_fvcore(call: Call) -> Answer:
    """Its own word for a multiply-add is one flop."""
    from fvcore.nn import FlopCountAnalysis

    module = AsModule(call)
    analysis = FlopCountAnalysis(module, tuple(module.tensors))
    return Answer(2 * int(analysis.unsupported_ops_warnings(False).uncalled_modules_warnings(False).total()))


def by_torchinfo(call: Call) -> Answer:
    from torchinfo import summary

    module = AsModule(call)
    return Answer(2 * int(summary(module, input_data=module.tensors, verbose=0).total_mult_adds))


def by_thop(call: Call) -> Answer:
    from thop import profile

    module = AsModule(call)
    return Answer(2 * int(profile(module, inputs=tuple(module.tensors), verbose=False)[0]))


def by_ptflops(call: Call) -> Answer:
    """Inputs go in by name: those it is given by place it takes for a batch, and divides by its size."""
    from ptflops import get_model_complexity_info

    module = AsModule(call)
    named = {f"input{place}": tensor for place, tensor in enumerate(module.tensors)}
    captured = io.StringIO()
    with contextlib.redirect_stdout(captured):
        macs, _ = get_model_complexity_info(
            module, (1,), input_constructor=lambda _: named, as_strings=False, print_per_layer_stat=False
        )
    if macs is None:  # it prints what went wrong
        raise RuntimeError(captured.getvalue().strip().splitlines()[-1])
    return Answer(2 * int(macs))


def by_calflops(call: Call) -> Answer:
    from calflops import calculate_flops

    module = AsModule(call)
    if not any(True for _ in module.parameters()):  # it asks the first parameter for the device
        module.register_parameter("somewhere", nn.Parameter(torch.zeros(())))

    def flops(backward: bool) -> int:
        settings = {"print_results": False, "output_as_string": False, "include_backPropagation": backward}
        return int(calculate_flops(module, args=module.tensors, **settings)[0])

    forward = flops(backward=False)
    return Answer(forward, flops(backward=True) - forward)


@dataclass(frozen=True)
class Peer:
    name: str
    package: str
    module: str
    count: Callable[[Call], Answer]


PORISM = Peer("porism", "porism", "porism", by_porism)

PEERS = (
    Peer("torch", "torch", "torch", by_torch),
    Peer("fvcore", "fvcore", "fvcore", by_fvcore),
    Peer("torchinfo", "torchinfo", "torchinfo", by_torchinfo),
    Peer("thop", "ultralytics-thop", "thop", by_thop),
    Peer("ptflops", "ptflops", "ptflops", by_ptflops),
    Peer("calflops", "calflops", "calflops", by_calflops),
)


def check_installed(peers: tuple[Peer, ...] = PEERS) -> None:
    if missing := [peer.package for peer in peers if find_spec(peer.module) is None]:
        raise MissingExtra(f'the counters benchmark needs {", ".join(missing)}: pip install "porism[bench]".')


def versions() -> dict[str, str]:
    return {peer.package: version(peer.package) for peer in PEERS}


def ask(peer: Peer, case: Case) -> Answer:
    """What the peer says of the case. Whatever it raises is its answer, and what it prints or patches is undone."""
    with _silence(), _torch_left_as_it_was():
        try:
            return peer.count(case.make())
        except Exception as error:
            message = next(iter(str(error).strip().splitlines()), "")
            return Answer(None, reason=f"{type(error).__name__}: {message}"[:200].rstrip(": "))


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    nowhere = io.StringIO()
    before = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextlib.contextmanager
def _torch_left_as_it_was() -> Iterator[None]:
    """Some peers put their own functions into torch, and leave them there when a case raises."""
    kept = [(place, dict(vars(place))) for place in (torch, functional, Tensor)]
    try:
        yield
    finally:
        for place, before in kept:
            for name, value in dict(vars(place)).items():
                if name in before and before[name] is not value:
                    setattr(place, name, before[name])
                elif name not in before and place is Tensor:  # it hid what the class inherits
                    delattr(place, name)

"""PyTorch's own samples of nn.MultiheadAttention, nn.RNN and nn.LSTM, through our layers with the same state_dict."""

import math
import sys
import types
import unittest
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from porism.layers import LSTM, Attention, Elman
from porism.testing.gradients import relative_error

EXACT = 1e-12
ROUNDING = 4 * torch.finfo(torch.float64).eps

LAYERS: dict[str, Callable[..., nn.Module]] = {
    "MultiheadAttention": Attention,
    "RNN": lambda **options: Elman(**{"nonlinearity": "tanh"} | options),
    "LSTM": LSTM,
}

EXCEPTIONS = {
    ("RNN", "nonlinearity"): "Elman's is the sigmoid unless another is given, nn.RNN's tanh",
    ("RNN", "bias_hh"): "Elman has one bias, the sum of nn.RNN's two, of which both have the same gradient",
    ("MultiheadAttention", "need_weights"): "Attention gives no weights unless they are requested",
}
"""Where our layers differ from torch's, by layer and by the option or parameter, and why."""


@pytest.fixture(scope="module")
def samples() -> list[Any]:
    """(name, training, index, ModuleInput) of torch.testing._internal.common_modules, which takes seconds to import."""
    # It imports expecttest for a base class of torch's own tests, and no more is used of it here.
    if "expecttest" not in sys.modules:
        module = types.ModuleType("expecttest")
        module.__dict__["TestCase"] = unittest.TestCase
        sys.modules["expecttest"] = module
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal.common_modules import module_db
    # That import forbids to set flags such as torch.backends.mkldnn.enabled, for torch's own tests.
    torch.backends.flags_frozen.__globals__["__allow_nonbracketed_mutation_flag"] = True
    assert not torch.backends.flags_frozen()

    found = []
    for info in module_db:
        name = info.module_cls.__name__
        if info.module_cls.__module__.startswith("torch.nn.modules") and name in LAYERS:
            for training in (True, False):
                options = {"device": "cpu", "dtype": torch.float64, "requires_grad": True, "training": training}
                made = info.module_inputs_func(info, **options)
                found += [(name, training, index, sample) for index, sample in enumerate(made)]
    return found


def outcome(layer: nn.Module, args: Any, options: dict[str, Any]) -> tuple[list[Tensor], dict[str, Tensor]]:
    """The answers, and the gradients of parameters and inputs by their names."""
    answers = [part for part in tree_leaves(layer(*args, **options)) if part is not None]
    given = {
        f"input {index}": x for index, x in enumerate(tree_leaves(args)) if isinstance(x, Tensor) and x.requires_grad
    }
    learned = given | dict(layer.named_parameters())
    loss = sum((part.sin() * torch.arange(part.numel()).view(part.shape)).sum() for part in answers)
    slopes = torch.autograd.grad(loss, list(learned.values()), allow_unused=True)
    return answers, {
        name: torch.zeros_like(x) if slope is None else slope
        for (name, x), slope in zip(learned.items(), slopes, strict=True)
    }


def differences(name: str, training: bool, sample: Any) -> dict[str, float]:
    """Of our layer to torch's, where they are larger than rounding."""
    made, call = sample.constructor_input, sample.forward_input
    theirs = getattr(nn, name)(*made.args, **made.kwargs).double().train(training)
    ours = LAYERS[name](*made.args, **made.kwargs).double().train(training)
    ours.load_state_dict(theirs.state_dict())
    options = call.kwargs | ({"need_weights": True} if (name, "need_weights") in EXCEPTIONS else {})
    expected_answers, expected_slopes = outcome(theirs, call.args, options)
    answers, slopes = outcome(ours, call.args, options)
    pairs = zip(answers, expected_answers, strict=True)
    found = {f"answer {index}": relative_error(one, other) for index, (one, other) in enumerate(pairs)}
    # Some samples saturate tanh (1 - h^2 of 1e-8), where the last bit of a state is that much of its slope: what is
    # less than the rounding of the largest slope is no difference.
    rounding = ROUNDING * max(float(slope.abs().max()) for slope in expected_slopes.values() if slope.numel())
    for parameter, slope in expected_slopes.items():
        own = parameter.replace("bias_hh", "bias_ih") if (name, "bias_hh") in EXCEPTIONS else parameter
        error = relative_error(slopes[own], slope)
        is_rounding = error < math.inf and bool(((slopes[own] - slope).abs() <= rounding).all())
        found[parameter] = 0.0 if is_rounding else error
    return {part: error for part, error in found.items() if not error <= EXACT}


@pytest.mark.sweep(1, each="name")
@pytest.mark.filterwarnings("ignore:dropout option adds dropout after all but last", "ignore:Support for mismatched")
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_a_layer_answers_as_torchs_own(name: str, training: bool, samples: list[Any]) -> None:
    chosen = [(index, sample) for layer, mode, index, sample in samples if (layer, mode) == (name, training)]
    assert len(chosen) >= 32
    found = {index: differences(name, training, sample) for index, sample in chosen}
    assert {index: parts for index, parts in found.items() if parts} == {}

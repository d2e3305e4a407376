"""What must hold for a layer: one function a check, each of a trial."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map_only

from porism.costing.counting.count import count
from porism.costing.counting.inputs import TensorSpec
from porism.testing.report import Failure, Skip
from porism.testing.trial import (
    LayerTrial,
    answers_of,
    at,
    gradients_of,
    largest_error,
    weighted,
    weights_for,
    worst_of,
)
from porism.training.capture import capture

EXACT = 1e-12
"""Relative error in float64 of what computes the same in another order."""
GRADIENT = 1e-10
DIFFERENCES = 1e-6
STEP = 1e-5
DTYPES: Mapping[torch.dtype, float] = {torch.float32: 1e-5, torch.bfloat16: 5e-2}
"""Relative error of lower precision beside float64."""

LAYOUTS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "transposed in memory": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
    "every second number": lambda x: torch.stack([x, torch.full_like(x, float("nan"))], dim=-1)[..., 0],
    "with an offset": lambda x: torch.cat([torch.full_like(x[:1], float("nan")), x])[1:],
    "reversed twice": lambda x: x.flip(0).contiguous().flip(0),
}


def _equals_naive(trial: LayerTrial) -> tuple[float, float]:
    naive = trial.naive
    if naive is None:
        raise Skip("no naive was given")

    def errors() -> Iterator[tuple[float, str]]:
        for sizes in trial.all_sizes():
            layer = trial.build(sizes)
            args, named = trial.given(sizes)
            found, expected = layer(*args, **named), naive(layer, *args, **named)
            parts = answers_of(expected)
            yield largest_error(answers_of(found)[: len(parts)], parts, at(sizes)), f"answer {at(sizes)}"
            variables = trial.variables(layer, args, named)
            ours = gradients_of(answers_of(found)[: len(parts)], variables)
            theirs = gradients_of(parts, variables)
            for name in variables:
                # A gradient's tolerance is larger; scaled, so that one number judges both.
                error = largest_error([ours[name]], [theirs[name]], at(sizes))
                yield error * EXACT / GRADIENT, f"gradient of {name} {at(sizes)}"

    return worst_of(errors(), EXACT)


def _takes_any_strides(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes)
    args, named = trial.given(sizes)
    variables = trial.variables(layer, args, named)
    output = layer(*args, **named)
    expected = [*answers_of(output), *gradients_of(output, variables).values()]

    def laid_out(value: Any, layout: Callable[[Tensor], Tensor]) -> Any:
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim():
            return layout(value.detach()).detach().requires_grad_(value.requires_grad)
        return value

    def errors() -> Iterator[tuple[float, str]]:
        for name, layout in LAYOUTS.items():
            other = tuple(laid_out(value, layout) for value in args)
            others = {key: laid_out(value, layout) for key, value in named.items()}
            output = layer(*other, **others)
            found = [*answers_of(output), *gradients_of(output, trial.variables(layer, other, others)).values()]
            yield largest_error(found, expected, f"inputs {name}"), f"inputs {name}, {at(sizes)}"

    return worst_of(errors(), GRADIENT)


def _gradient_is_slope(trial: LayerTrial) -> tuple[float, float]:
    def errors() -> Iterator[tuple[float, str]]:
        for sizes in trial.all_sizes():
            layer = trial.build(sizes)
            args, named = trial.given(sizes)
            variables = trial.variables(layer, args, named)
            if not variables:
                raise Skip("no input or parameter requires a gradient")
            slopes = gradients_of(layer(*args, **named), variables)
            for name, value in variables.items():
                direction = torch.randn(value.shape, dtype=value.dtype)
                direction /= max(float(direction.norm()), 1e-300)
                ends = []
                for sign in (1, -1):
                    with torch.no_grad():
                        value += sign * STEP * direction
                        ends.append(weighted(layer(*args, **named)))
                        value -= sign * STEP * direction
                slope = float((slopes[name] * direction).sum())
                difference = float(ends[0] - ends[1]) / (2 * STEP)
                # Against the terms that cancel: a slope across the gradient is the small difference of large parts.
                size = max(float((slopes[name] * direction).abs().sum()), abs(difference), 1e-3)
                yield abs(slope - difference) / size, f"gradient of {name} {at(sizes)}"

    return worst_of(errors(), DIFFERENCES)


def _gradient_by_hand(trial: LayerTrial) -> tuple[float, float]:
    by_hand = trial.gradient
    if by_hand is None:
        raise Skip("no gradient by hand was given")

    def errors() -> Iterator[tuple[float, str]]:
        for sizes in trial.all_sizes():
            layer = trial.build(sizes)
            args, named = trial.given(sizes)
            variables = trial.variables(layer, args, named)
            output = layer(*args, **named)
            upstream = tree_map_only(
                Tensor, lambda part: weights_for(part) if part.is_floating_point() else part, output
            )
            expected = gradients_of(output, variables)
            with torch.no_grad():
                found = by_hand(layer, upstream, *args, **named)
            if missing := [name for name in variables if name not in found]:
                raise Failure(f"the gradient by hand lacks {', '.join(missing)}")
            for name in variables:
                yield largest_error([found[name]], [expected[name]], at(sizes)), f"gradient of {name} {at(sizes)}"

    return worst_of(errors(), GRADIENT)


def _cost_is_counted(trial: LayerTrial) -> tuple[float, float]:
    if trial.cost is None:
        raise Skip("no cost by hand was given")
    for sizes in trial.all_sizes():
        layer = trial.build(sizes)
        args, named = trial.given(sizes)
        by_hand = trial.cost.at(**sizes)
        training = count(layer, *args, **named)
        if training.uncounted:
            raise Failure(f"not counted: {', '.join(training.uncounted)}")
        counted = {
            "parameters": sum(parameter.numel() for parameter in layer.parameters()),
            "flops": training.flops,
            "backward_flops": training.backward_flops,
            "saved": _saved_elements(layer, args, named),
        }
        for kind, number in counted.items():
            if by_hand[kind] != number:
                raise Failure(f"{kind} by hand {by_hand[kind]:,}, counted {number:,}, {at(sizes)}")
    return 0.0, 0.0


def _saved_elements(layer: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Numbers that autograd keeps for the backward pass, parameters left out; views of one memory count once."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The answer is held, so that no storage is freed and its address used again.
        answer = layer(*args, **named)
    for parameter in layer.parameters():
        kept.pop(parameter.untyped_storage().data_ptr(), None)
    del answer
    return sum(kept.values())


def _refuses_wrong_input(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes)
    args, named = trial.given(sizes)
    values: dict[str, Any] = {f"input{i}": value for i, value in enumerate(args)} | named
    specs: dict[str, Any] = {f"input{i}": spec for i, spec in enumerate(trial.specs)} | trial.named
    tried = 0
    for name, spec in specs.items():
        if not isinstance(spec, TensorSpec):
            continue
        for what, wrong in _mistakes(spec, values[name], trial.factory_letters, sizes):
            tried += 1
            changed = values | {name: wrong}
            try:
                layer(*(changed[f"input{i}"] for i in range(len(args))), **{key: changed[key] for key in named})
            except Exception:
                continue
            raise Failure(f"{name} {what} was answered, expected an error, {at(sizes)}")
    if not tried:
        raise Skip("no input has a size or a type that the layer fixes")
    return 0.0, 0.0


def _mistakes(
    spec: TensorSpec, value: Tensor, fixed: Sequence[str], sizes: Mapping[str, int]
) -> Iterator[tuple[str, Tensor]]:
    """Inputs that a layer built at these sizes cannot mean."""
    for dim, size in enumerate(spec.sizes):
        if any(letter in fixed for letter in size.letters):
            wider = list(value.shape)
            wider[dim] += 1
            yield f"of {tuple(wider)} for {tuple(value.shape)}", value.new_zeros(wider)
    if value.is_floating_point():
        yield "of whole numbers for floating ones", value.detach().to(torch.int64)
    if spec.below is not None:
        yield "beyond its range", torch.full_like(value, spec.below.at(sizes))
        yield "below 0", torch.full_like(value, -1)


def _compiles(trial: LayerTrial) -> tuple[float, float]:
    def errors() -> Iterator[tuple[float, str]]:
        for sizes in (trial.smallest_sizes(), trial.some_sizes()):
            torch.compiler.reset()
            layer = trial.build(sizes)
            args, named = trial.given(sizes)
            variables = trial.variables(layer, args, named)
            torch.manual_seed(trial.seed)
            expected = layer(*args, **named)
            torch.manual_seed(trial.seed)
            found = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=False)(*args, **named)
            yield largest_error(answers_of(found), answers_of(expected), at(sizes)), f"answer {at(sizes)}"
            ours, theirs = gradients_of(found, variables), gradients_of(expected, variables)
            yield largest_error(list(ours.values()), list(theirs.values()), at(sizes)), f"gradient {at(sizes)}"

    return worst_of(errors(), GRADIENT)


def _under_torch_func(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes).eval()
    args, named = trial.given(sizes)
    parameters = {name: value.detach() for name, value in layer.named_parameters()}

    def loss(parameters: dict[str, Tensor], *args: Any) -> Tensor:
        return weighted(torch.func.functional_call(layer, parameters, args, named))

    def errors() -> Iterator[tuple[float, str]]:
        if parameters:
            plain = tuple(value.detach() if isinstance(value, Tensor) else value for value in args)
            found = torch.func.grad(loss)(parameters, *plain)
            variables = dict(layer.named_parameters())
            expected = gradients_of(layer(*plain, **named), variables)
            yield largest_error([found[name] for name in expected], list(expected.values()), "grad"), "grad"
        tensors = [value.detach() for value in args if isinstance(value, Tensor)]
        if len(tensors) == len(args):
            copies = [torch.stack([value, value.roll(1, 0)]) for value in tensors]
            both = torch.func.vmap(lambda *parts: tuple(answers_of(layer(*parts, **named))))(*copies)
            one_by_one = [answers_of(layer(*(part[i] for part in copies), **named)) for i in range(2)]
            expected_parts = [torch.stack(parts) for parts in zip(*one_by_one, strict=True)]
            yield largest_error(list(both), expected_parts, "vmap"), "vmap"

    return worst_of(errors(), GRADIENT)


def _exports(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes).eval()
    args, named = trial.given(sizes)
    exported = torch.export.export(layer, args, named).module()
    return largest_error(answers_of(exported(*args, **named)), answers_of(layer(*args, **named)), at(sizes)), EXACT


def _under_autocast(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes, torch.float32)
    args, named = trial.given(sizes, torch.float32)
    variables = trial.variables(layer, args, named)
    with torch.autocast("cpu", torch.bfloat16):
        output = layer(*args, **named)
    found = gradients_of(output, variables)
    if wrong := [name for name, value in variables.items() if found[name].dtype != value.dtype]:
        raise Failure(f"the gradient of {wrong[0]} is {found[wrong[0]].dtype}, expected {variables[wrong[0]].dtype}")
    return largest_error(answers_of(output), answers_of(layer(*args, **named)), at(sizes)), DTYPES[torch.bfloat16]


def _in_cuda_graph(trial: LayerTrial) -> tuple[float, float]:
    if not torch.cuda.is_available() or not any(name.startswith("cuda") for name in trial.devices or ["cuda"]):
        raise Skip("there is no CUDA device")
    sizes = trial.some_sizes()
    layer = trial.build(sizes, torch.float32).cuda().eval()
    args, named = tree_map_only(Tensor, lambda x: x.detach().cuda(), trial.given(sizes, torch.float32))
    with torch.no_grad():
        expected = [part.clone() for part in answers_of(layer(*args, **named))]
        with capture(graph := torch.cuda.CUDAGraph()):
            output = layer(*args, **named)
        graph.replay()
        torch.cuda.synchronize()
    return largest_error(answers_of(output), expected, at(sizes)), EXACT


def _second_derivative(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes)
    args, named = trial.given(sizes)
    variables = trial.variables(layer, args, named)
    if not variables:
        raise Skip("no input or parameter requires a gradient")

    def slope() -> Tensor:
        """The gradient along fixed weights, as a number that depends on the variables."""
        first = torch.autograd.grad(
            weighted(layer(*args, **named)), list(variables.values()), create_graph=True, allow_unused=True
        )
        terms = [(weights_for(part) * part).sum() for part in first if part is not None]
        return torch.stack(terms).sum()

    try:
        here = slope()
        second = torch.autograd.grad(here, list(variables.values()), allow_unused=True) if here.requires_grad else None
    except RuntimeError as refusal:
        if "derivative" not in str(refusal) and "differentiable" not in str(refusal):
            raise
        return 0.0, 0.0  # refused in words: right

    def errors() -> Iterator[tuple[float, str]]:
        for place, (name, value) in enumerate(variables.items()):
            direction = torch.randn(value.shape, dtype=value.dtype)
            ends = []
            for sign in (1, -1):
                with torch.no_grad():
                    value += sign * STEP * direction
                ends.append(float(slope().detach()))
                with torch.no_grad():
                    value -= sign * STEP * direction
            difference = (ends[0] - ends[1]) / (2 * STEP)
            part = None if second is None else second[place]
            found = 0.0 if part is None else float((part * direction).sum())
            size = max(0.0 if part is None else float((part * direction).abs().sum()), abs(difference), 1e-2)
            yield abs(found - difference) / size, f"second derivative along {name} {at(sizes)}"

    return worst_of(errors(), 1e-5)


def _lower_precision(trial: LayerTrial) -> tuple[float, float]:
    worst = (0.0, 1.0)
    for dtype in trial.dtypes or list(DTYPES):
        tolerance = DTYPES.get(dtype, 1e-2)
        sizes = trial.some_sizes()
        layer = trial.build(sizes, dtype)
        args, named = trial.given(sizes, dtype)
        exact = copy.deepcopy(layer).double()
        wide, wide_named = tree_map_only(
            Tensor,
            lambda x: x.detach().double().requires_grad_(x.requires_grad) if x.is_floating_point() else x,
            (args, named),
        )
        output = layer(*args, **named)
        if wrong := [part.dtype for part in answers_of(output) if part.dtype != dtype]:
            raise Failure(f"an answer of {wrong[0]} to inputs and weights of {dtype}")
        expected = exact(*wide, **wide_named)
        found = [*answers_of(output), *gradients_of(output, trial.variables(layer, args, named)).values()]
        other = [*answers_of(expected), *gradients_of(expected, trial.variables(exact, wide, wide_named)).values()]
        error = largest_error(found, other, f"in {dtype}")
        if not error <= tolerance:
            raise Failure(f"relative error {error:.2e} in {dtype}, tolerated {tolerance:.0e}")
        worst = max(worst, (error / tolerance, 1.0))
    return worst


def _moved(x: Tensor, device: str) -> Tensor:
    return x.detach().to(device).requires_grad_(x.requires_grad)


def _on_devices(trial: LayerTrial) -> tuple[float, float]:
    devices = [name for name in trial.devices or (["cuda"] if torch.cuda.is_available() else []) if name != "cpu"]
    if not devices:
        raise Skip("there is no device but the CPU")

    def errors() -> Iterator[tuple[float, str]]:
        for device in devices:
            for sizes in trial.all_sizes():
                layer = trial.build(sizes)
                args, named = trial.given(sizes)
                there = copy.deepcopy(layer).to(device)
                moved, others = tree_map_only(
                    Tensor,
                    partial(_moved, device=device),
                    (args, named),
                )
                here = layer(*args, **named)
                output = there(*moved, **others)
                found = [*answers_of(output), *gradients_of(output, trial.variables(there, moved, others)).values()]
                expected = [*answers_of(here), *gradients_of(here, trial.variables(layer, args, named)).values()]
                yield largest_error([x.cpu() for x in found], expected, device), f"on {device} {at(sizes)}"

    return worst_of(errors(), GRADIENT)


def _state_dict_is_strict(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes).eval()
    args, named = trial.given(sizes)
    twin = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    state = layer.state_dict()
    if len(state) < len(list(layer.parameters())):
        raise Failure("state_dict holds fewer tensors than there are parameters")
    twin.load_state_dict(state, strict=True)
    error = largest_error(answers_of(twin(*args, **named)), answers_of(layer(*args, **named)), "after load_state_dict")
    if state:
        first, *rest = state
        try:
            twin.load_state_dict({name: state[name] for name in rest}, strict=True)
        except RuntimeError:
            return error, 0.0
        raise Failure(f"load_state_dict(strict=True) accepted a state without {first}")
    return error, 0.0


def _copies_are_independent(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes).eval()
    args, named = trial.given(sizes)
    expected = [part.clone() for part in answers_of(layer(*args, **named))]
    twin = copy.deepcopy(layer)
    error = largest_error(answers_of(twin(*args, **named)), expected, "of the copy")
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    return max(error, largest_error(answers_of(layer(*args, **named)), expected, "after the copy changed")), 0.0


def _padding_stays_padding(trial: LayerTrial) -> tuple[float, float]:
    masks = [key for key in trial.named if key.endswith("padding_mask")]
    if not masks:
        raise Skip("no input is named as a padding mask")
    sizes = trial.some_sizes()
    layer = trial.build(sizes).eval()
    args, named = trial.given(sizes)
    mask = torch.zeros_like(named[masks[0]], dtype=torch.bool)  # (B, S)
    mask[:, -1:] = mask.shape[-1] > 1
    named = named | {masks[0]: mask}

    def with_padding(filled: float) -> list[Tensor]:
        def filled_in(value: Any) -> Any:
            if not isinstance(value, Tensor) or not value.is_floating_point() or value.dim() < 3:
                return value
            dims = [value.shape[:2] == mask.shape, value.shape[1::-1] == mask.shape]
            if not any(dims):
                return value
            where = (mask if dims[0] else mask.mT).unsqueeze(-1)
            return value.detach().masked_fill(where, filled)

        output = answers_of(layer(*(filled_in(value) for value in args), **{k: filled_in(v) for k, v in named.items()}))
        return [
            part[..., : part.shape[-2] - 1, :] if part.dim() > 2 and part.shape[-2] == mask.shape[-1] else part
            for part in output
        ]

    return largest_error(with_padding(float("nan")), with_padding(0.0), "NaN in the padding"), EXACT


def _repeats_itself(trial: LayerTrial) -> tuple[float, float]:
    sizes = trial.some_sizes()
    layer = trial.build(sizes)
    args, named = trial.given(sizes)
    runs = []
    for _ in range(2):
        torch.manual_seed(trial.seed)
        output = layer(*args, **named)
        runs.append([*answers_of(output), *gradients_of(output, trial.variables(layer, args, named)).values()])
    for first, second in zip(*runs, strict=True):
        if not torch.equal(first, second):
            raise Failure("two runs from one seed differ")
    return 0.0, 0.0


CHECKS: Mapping[str, Callable[[LayerTrial], tuple[float, float]]] = {
    "naive": _equals_naive,
    "strides": _takes_any_strides,
    "gradcheck": _gradient_is_slope,
    "gradient": _gradient_by_hand,
    "cost": _cost_is_counted,
    "wrong_input": _refuses_wrong_input,
    "compile": _compiles,
    "func": _under_torch_func,
    "export": _exports,
    "autocast": _under_autocast,
    "cuda_graph": _in_cuda_graph,
    "double_backward": _second_derivative,
    "dtypes": _lower_precision,
    "devices": _on_devices,
    "state_dict": _state_dict_is_strict,
    "deepcopy": _copies_are_independent,
    "padding": _padding_stays_padding,
    "deterministic": _repeats_itself,
}

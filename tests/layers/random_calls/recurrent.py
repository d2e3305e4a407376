"""Random calls of the recurrent layers, on sequences and on grids."""

from typing import Any

import torch
from tests.layers.random_calls.call import Call, Leaves
from tests.layers.random_calls.draw import Draw, Operand, spoiled
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from porism.layers import Elman, Grid
from porism.layers.recurrent.elman import elman
from porism.layers.recurrent.elman.naive import ACTIVATIONS
from porism.layers.recurrent.grid import naive as grid_naive
from porism.layers.recurrent.grid.functional import grid
from porism.layers.recurrent.grid.kernels.diagonals import DIRECTIONS


def elman_call(draw: Draw) -> Call:
    """The functional form: one layer, one direction."""
    dtype, nonlinearity = draw.dtype(), draw.one_of("sigmoid", "tanh", "relu")
    T, B, D, H = draw.one_of(1, 2, 7, 20), draw.one_of(0, 1, 2, 5), draw.one_of(1, 2, 5), draw.one_of(1, 3, 8)
    shapes = {"x": (T, B, D), "h0": (B, H), "weight_ih": (H, D), "weight_hh": (H, H)}
    if draw.happens(0.7):
        shapes["bias"] = (H,)
    operands = {name: draw.operand(shape, dtype, 0.5) for name, shape in shapes.items()}

    def ours(x: Tensor, h: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None = None) -> Tensor:
        return elman(x, h, weight_ih, weight_hh, bias, nonlinearity)[0]

    def oracle(x: Tensor, h: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None = None) -> Tensor:
        return _states(x, h, weight_ih, weight_hh, bias, nonlinearity)

    return _made(draw, f"elman {nonlinearity}", operands, dtype, ours, oracle)


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _unpacked(y: PackedSequence, batch_first: bool) -> Tensor:
    """Not compiled: torch 2.11 cannot compile its own pad_packed_sequence, and it is not what is tried here."""
    padded: Tensor = pad_packed_sequence(y, batch_first)[0]
    return padded


def elman_layer_call(draw: Draw) -> Call:
    """The layer, in the forms that nn.RNN takes."""
    dtype, nonlinearity = draw.dtype(), draw.one_of("sigmoid", "tanh", "relu")
    T, B, D, H = draw.one_of(1, 2, 7), draw.one_of(0, 1, 2, 4), draw.one_of(1, 3), draw.one_of(1, 4)
    layers, both, first = draw.one_of(1, 1, 2), draw.happens(0.3), draw.happens(0.4)
    layer = Elman(
        D, H, layers, nonlinearity, draw.happens(0.7), first, bidirectional=both, device=draw.device, dtype=dtype
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(draw.normal(*parameter.shape) * 0.5)
    packed = B > 0 and draw.happens(0.3)
    unbatched = not packed and B > 0 and draw.happens(0.2)
    lengths = [draw.whole(1, T) for _ in range(B)] if packed else [T] * B
    if packed:
        lengths[draw.whole(0, B - 1)] = T
    shape = (T, D) if unbatched else (B, T, D) if first else (T, B, D)
    lengths = [T] if unbatched else lengths
    operands = {"x": draw.operand(shape, dtype)}
    if draw.happens(0.5):
        number = layers * (1 + both)
        operands["hx"] = draw.operand((number, H) if unbatched else (number, B, H), dtype)
    parameters = {name: parameter.detach().double() for name, parameter in layer.named_parameters()}
    which = draw.one_of("states", "last")
    mistake = _spoil(draw, operands) if draw.happens(0.15) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        if mistake is not None:
            mistake[1](views)
        # torch packs dense tensors only, and says so itself.
        if packed and isinstance(views["x"], Tensor) and not views["x"].is_sparse and views["x"].dim() == 3:
            views["x"] = pack_padded_sequence(views["x"], torch.tensor(lengths), first, enforce_sorted=False)
        y, h = torch.func.functional_call(layer, {name: given[name] for name in parameters}, tuple(views.values()))
        answer: Tensor = h if which == "last" else _unpacked(y, first) if packed else y
        return answer

    def oracle(given: Leaves) -> Tensor:
        views = {name: operand.view(given[name]) for name, operand in operands.items()}
        x, hx = views["x"], views.get("hx")
        if unbatched:
            x, hx = x[:, None], None if hx is None else hx[:, None]
        elif first:
            x = x.transpose(0, 1)
        y, h = _network(layer, given, x, hx, lengths)
        if unbatched:
            y, h = y[:, 0], h[:, 0]
        elif first:
            y = y.transpose(0, 1)
        return y if which == "states" else h

    about = f"{layer} packed={packed} {which} " + _told(operands) + (f" mistake: {mistake[0]}" if mistake else "")
    leaves = {name: operand.leaf for name, operand in operands.items()} | parameters
    return Call(
        "elman layer", about, leaves, dtype, ours, oracle, mistake is not None, terms=4.0,
        in_place=draw.happens(0.2), autocast=mistake is None and dtype == torch.float64 and draw.happens(0.2),
    )  # fmt: skip


def grid_call(draw: Draw) -> Call:
    """The functional form: one scan from one direction."""
    dtype, cell = draw.dtype(), draw.one_of("rnn", "rnn", "lstm")
    nonlinearity = draw.one_of("sigmoid", "tanh", "relu") if cell == "rnn" else None
    gates = 1 if cell == "rnn" else 5
    B, C, H = draw.one_of(0, 1, 2, 3), draw.one_of(1, 2, 3), draw.one_of(1, 2, 4)
    Y, X = draw.one_of(1, 2, 5), draw.one_of(1, 2, 4)
    direction = draw.one_of(*DIRECTIONS)
    shapes = {
        "input": (B, C, Y, X),
        "weight_in": (gates * H, C),
        "weight_left": (gates * H, H),
        "weight_top": (gates * H, H),
    }
    if draw.happens(0.5):
        shapes["bias"] = (gates * H,)
    operands = {name: draw.operand(shape, dtype, 0.4) for name, shape in shapes.items()}

    def ours(x: Tensor, into: Tensor, left: Tensor, top: Tensor, bias: Tensor | None = None) -> Tensor:
        return grid(x, into, left, top, bias, nonlinearity or "sigmoid", cell, direction)

    def oracle(x: Tensor, *weights: Tensor) -> Tensor:
        return _image(x, weights, nonlinearity, direction)

    return _made(draw, f"grid {cell} {nonlinearity} {direction}", operands, dtype, ours, oracle)


def grid_layer_call(draw: Draw) -> Call:
    dtype = draw.dtype()
    directions, merge_mode = draw.one_of(1, 2, 4), draw.one_of("sum", "concat")
    B, C, H, Y, X = draw.one_of(0, 1, 3), draw.one_of(1, 2), draw.one_of(1, 3), draw.one_of(1, 3), draw.one_of(1, 4)
    layer = Grid(
        C, H, "tanh", draw.happens(0.5), directions=directions, merge_mode=merge_mode, device=draw.device, dtype=dtype
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(draw.normal(*parameter.shape) * 0.4)
    unbatched = B > 0 and draw.happens(0.2)
    operands = {"x": draw.operand((C, Y, X) if unbatched else (B, C, Y, X), dtype)}
    parameters = {name: parameter.detach().double() for name, parameter in layer.named_parameters()}
    mistake = _spoil(draw, operands) if draw.happens(0.15) else None

    def ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        if mistake is not None:
            mistake[1](views)
        answer: Tensor = torch.func.functional_call(
            layer, {name: given[name] for name in parameters}, tuple(views.values())
        )
        return answer

    def oracle(given: Leaves) -> Tensor:
        x = operands["x"].view(given["x"])
        images = x[None] if unbatched else x
        scans = []
        for direction in layer.directions:
            suffix = "" if direction == DIRECTIONS[0] else "_" + direction.replace("-", "_")
            names = ["weight_in", "weight_left", "weight_top", *(["bias"] if layer.has_bias else [])]
            scans.append(_image(images, [given[name + suffix] for name in names], "tanh", direction))
        y = torch.cat(scans, 1) if merge_mode == "concat" else sum(scans[1:], scans[0])
        return y[0] if unbatched else y

    about = f"{layer} " + _told(operands) + (f" mistake: {mistake[0]}" if mistake else "")
    leaves = {name: operand.leaf for name, operand in operands.items()} | parameters
    return Call(
        "grid layer", about, leaves, dtype, ours, oracle, mistake is not None, terms=4.0,
        in_place=draw.happens(0.2), autocast=mistake is None and dtype in (torch.float32, torch.float64)
        and draw.happens(0.15),
    )  # fmt: skip


def _made(draw: Draw, name: str, operands: dict[str, Operand], dtype: torch.dtype, ours: Any, oracle: Any) -> Call:
    mistake = _spoil(draw, operands) if draw.happens(0.2) else None

    def call_ours(given: Leaves) -> Tensor:
        views: dict[str, Any] = {name: operand.view(given[name]) for name, operand in operands.items()}
        if mistake is not None:
            mistake[1](views)
        answer: Tensor = ours(*views.values())
        return answer

    def call_oracle(given: Leaves) -> Tensor:
        answer: Tensor = oracle(*(operand.view(given[name]) for name, operand in operands.items()))
        return answer

    leaves = {name: operand.leaf for name, operand in operands.items()}
    about = _told(operands) + (f" mistake: {mistake[0]}" if mistake else "")
    return Call(
        name, about, leaves, dtype, call_ours, call_oracle, mistake is not None, terms=4.0, in_place=draw.happens(0.2)
    )


def _spoil(draw: Draw, operands: dict[str, Operand]) -> tuple[str, Any]:
    name, seed = draw.random.choice(sorted(operands)), draw.whole(0, 10**6)

    def change(views: dict[str, Any]) -> None:
        views[name] = spoiled(Draw(seed), views[name])[1]

    return f"{name}: {spoiled(Draw(seed), torch.zeros(1, 1))[0]}", change


def _told(operands: dict[str, Operand]) -> str:
    return ", ".join(f"{name} {tuple(operand.leaf.shape)} {operand.layout}" for name, operand in operands.items())


def _states(
    x: Tensor, h: Tensor, weight_ih: Tensor, weight_hh: Tensor, bias: Tensor | None, nonlinearity: str
) -> Tensor:
    states = []
    for x_t in x:
        z = x_t @ weight_ih.mT + h @ weight_hh.mT
        h = ACTIVATIONS[nonlinearity](z if bias is None else z + bias)
        states.append(h)
    return torch.stack(states)


def _network(layer: Elman, weights: Leaves, x: Tensor, hx: Tensor | None, lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Sequence by sequence, each as long as it is; zeros after its end."""
    T, B, _ = x.shape
    directions = ("", "_reverse") if layer.bidirectional else ("",)
    width = layer.hidden_size * len(directions)
    outputs, lasts = [], []
    for b in range(B):
        y = x[: lengths[b], b : b + 1]
        last: list[Tensor] = []
        for number in range(layer.num_layers):
            sides = []
            for direction in directions:
                place = f"_l{number}{direction}"
                at = len(last)
                h = x.new_zeros(1, layer.hidden_size) if hx is None else hx[at, b : b + 1]
                turned = y.flip(0) if direction else y
                bias = weights.get(f"bias_ih{place}")
                states = _states(
                    turned, h, weights[f"weight_ih{place}"], weights[f"weight_hh{place}"], bias, layer.nonlinearity
                )
                last.append(states[-1])
                sides.append(states.flip(0) if direction else states)
            y = torch.cat(sides, -1)
        outputs.append(torch.cat([y, y.new_zeros(T - lengths[b], 1, width)]))
        lasts.append(torch.stack(last))
    if not B:
        return x.new_zeros(T, 0, width), x.new_zeros(layer.num_layers * len(directions), 0, layer.hidden_size)
    return torch.cat(outputs, 1), torch.cat(lasts, 1)


def _image(x: Tensor, weights: Any, nonlinearity: str | None, direction: str) -> Tensor:
    weight_in, weight_left, weight_top, *rest = (weight.mT if weight.dim() == 2 else weight for weight in weights)
    bias = rest[0] if rest else None
    turned = grid_naive.rotated(x, direction)
    if nonlinearity is None:
        y = grid_naive.grid_lstm(turned, weight_in, weight_left, weight_top, bias)
    else:
        y = grid_naive.grid(turned, weight_in, weight_left, weight_top, bias, nonlinearity)
    return grid_naive.rotated(y, direction)

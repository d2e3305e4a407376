"""The recurrent layer that people import."""

import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from porism.errors import ShapeError
from porism.layers.operands import check_dropout, check_operands, check_whole
from porism.layers.recurrent.dropout import draw_state_mask, drop_between_layers
from porism.layers.recurrent.elman.functional import check_nonlinearity, states
from porism.layers.recurrent.sequences import Sequences, outside_the_compiler


class Elman(nn.Module):
    """Elman recurrent layer, a drop-in for nn.RNN whose nonlinearity may be the sigmoid.

    h[t] = act(x[t] I + h[t-1] H + b)

    >>> y, h = Elman(50, 100)(torch.randn(10, 4, 50))   # T B D -> T B H
    >>> y.shape, h.shape
    (torch.Size([10, 4, 100]), torch.Size([1, 4, 100]))

    It is called as `torch.nn.RNN` is and answers in the same shapes: batch first, without a batch, packed sequences,
    several layers, both directions. It differs in three points: `nonlinearity` is "sigmoid" by default, there is one
    bias for each layer and direction, and weights start Glorot-uniform, biases at zero. The state_dict of an nn.RNN
    loads strictly; its two biases become one.

    While training, `dropout` acts on the states between layers, a mask for each step, or with `variational` one mask
    for all steps (Gal); `weight_dropout` on weight_hh (AWD-LSTM); `recurrent_dropout` on h[t-1], one mask for all steps
    (keras).

    Shapes: input (T, B, D), hx (layers * directions, B, H) -> output (T, B, directions * H), h_n like hx.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "sigmoid",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        variational: bool = False,
        weight_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            check_whole("elman", name, size)
        for name, p in (
            ("dropout", dropout),
            ("weight_dropout", weight_dropout),
            ("recurrent_dropout", recurrent_dropout),
        ):
            check_dropout("elman", name, p)
        check_nonlinearity(nonlinearity)
        if dropout and num_layers == 1:
            warnings.warn("elman: dropout acts between layers, and there is one only. Set dropout=0.", stacklevel=2)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.nonlinearity = nonlinearity
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.variational = variational
        self.weight_dropout = float(weight_dropout)
        self.recurrent_dropout = float(recurrent_dropout)
        self._directions = ("", "_reverse") if bidirectional else ("",)
        D, H = input_size, hidden_size
        for layer in range(num_layers):
            width = D if layer == 0 else len(self._directions) * H
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (H, width), "weight_hh": (H, H)}
            if bias:
                shapes["bias_ih"] = (H,)
            for direction in self._directions:
                for name, shape in shapes.items():
                    parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{direction}", parameter)
        self.register_load_state_dict_pre_hook(_fold_second_bias)  # type: ignore[no-untyped-call]
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot-uniform weights, zero biases."""
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)

    def forward(self, input: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """The states of the last layer, packed where the input is, and the last state of every layer and direction."""
        if isinstance(input, PackedSequence):
            if torch.compiler.is_compiling():
                return self._forward_packed(input, hx)
            check_operands("elman", input=input.data, hx=hx)
            self._check_packed(input)
        else:
            check_operands("elman", input=input, hx=hx)
            self._check_input(input)
        sequences = Sequences.of(input, self.batch_first)
        first = self._first_states(sequences, hx)
        y = sequences.padded
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout and self.training:
                y = drop_between_layers(y, self.dropout, self.variational)
            outputs = []
            for direction in self._directions:
                h = self._states(sequences.reverse(y) if direction else y, first[len(last)], f"_l{layer}{direction}")
                last.append(sequences.last(h))
                outputs.append(sequences.reverse(h) if direction else h)
            y = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0]
        return sequences.like_input(y), sequences.states_like_input(torch.stack(last))

    _forward_packed = outside_the_compiler("elman", forward)

    if TYPE_CHECKING:
        __call__ = forward

    def _states(self, x: Tensor, h0: Tensor, suffix: str) -> Tensor:
        """One layer in one direction, (T, B, H)."""
        weight_hh, mask = getattr(self, f"weight_hh{suffix}"), None
        if self.training:
            if self.weight_dropout:
                weight_hh = nn.functional.dropout(weight_hh, self.weight_dropout)
            if self.recurrent_dropout:
                mask = draw_state_mask(weight_hh, x.shape[1], self.recurrent_dropout)
        weight_ih = getattr(self, f"weight_ih{suffix}")
        bias = getattr(self, f"bias_ih{suffix}") if self.bias else None
        return states(x, h0, weight_ih, weight_hh, bias, self.nonlinearity, mask)

    def _first_states(self, sequences: Sequences, hx: Tensor | None) -> Tensor:
        """The state each layer and direction starts from, (layers * directions, B, H)."""
        number, B = self.num_layers * len(self._directions), sequences.padded.shape[1]
        if hx is None:
            return sequences.padded.new_zeros(number, B, self.hidden_size)
        expected = (number, self.hidden_size) if sequences.unbatched else (number, B, self.hidden_size)
        if tuple(hx.shape) != expected:
            named = "layers * directions, hidden_size" if sequences.unbatched else "layers * directions, B, hidden_size"
            raise ShapeError(
                f"elman: hx is {tuple(hx.shape)}, expected {expected}: {named}. "
                "Pass the state this layer gave for the same batch."
            )
        return sequences.states_from_input(hx)

    def _check_input(self, input: Tensor) -> None:
        shape = tuple(input.shape)
        order = "(B, T, D), batch_first," if self.batch_first else "(T, B, D)"
        if len(shape) not in (2, 3):
            raise ShapeError(
                f"elman: input is {shape}, {len(shape)} dimensions, expected {order} or (T, D) without a batch. "
                "Add the missing dimension with input.unsqueeze."
            )
        self._check_width(shape)
        if shape[1 if self.batch_first and len(shape) == 3 else 0] == 0:
            raise ShapeError(f"elman: input is {shape}, no steps, expected {order} with T from 1 on. Skip the batch.")

    def _check_packed(self, input: PackedSequence) -> None:
        shape, sizes = tuple(input.data.shape), input.batch_sizes
        if len(shape) != 2:
            raise ShapeError(
                f"elman: input is packed, {shape}, expected (rows, D), a step of a sequence each. Flatten it."
            )
        self._check_width(shape)
        if len(sizes) == 0 or int(sizes.sum()) != len(input.data) or bool((sizes.diff() > 0).any()):
            raise ShapeError(
                f"elman: input is packed, {len(input.data)} rows, with batch_sizes that add up to {int(sizes.sum())}, "
                f"expected {len(input.data)}, and none above the previous one. "
                "Pack it with torch.nn.utils.rnn.pack_padded_sequence."
            )

    def _check_width(self, shape: tuple[int, ...]) -> None:
        if shape[-1] != self.input_size:
            raise ShapeError(
                f"elman: input is {shape}, width {shape[-1]}, expected width {self.input_size}, the input_size. "
                f"Build the layer with input_size={shape[-1]}, or project the input first."
            )

    def extra_repr(self) -> str:
        options = ("num_layers", "nonlinearity", "bias", "batch_first", "dropout", "bidirectional")
        settings = [f"{option}={getattr(self, option)!r}" for option in options]
        changed = ("variational", "weight_dropout", "recurrent_dropout")
        settings += [f"{option}={value}" for option in changed if (value := getattr(self, option))]
        return ", ".join([str(self.input_size), str(self.hidden_size), *settings])


def _fold_second_bias(
    module: nn.Module,
    state_dict: dict[str, Any],
    prefix: str,
    local_metadata: dict[str, Any],
    strict: bool,
    missing_keys: list[str],
    unexpected_keys: list[str],
    error_msgs: list[str],
) -> None:
    """nn.RNN adds two biases; their sum is ours. A second one alone stays, and load_state_dict calls it unexpected."""
    start = f"{prefix}bias_hh_l"
    for second in [key for key in state_dict if key.startswith(start)]:
        first = f"{prefix}bias_ih_l{second.removeprefix(start)}"
        if first not in state_dict:
            continue
        one, other = state_dict[first], state_dict.pop(second)
        if one.shape == other.shape:
            state_dict[first] = one + other
        else:
            error_msgs.append(f"size mismatch for {second}: {tuple(other.shape)}, and {first} is {tuple(one.shape)}.")

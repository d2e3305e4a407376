"""The recurrent layer that people import."""

import warnings
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from porism.errors import ShapeError
from porism.layers.operands import check_dropout, check_operands, check_whole
from porism.layers.recurrent.elman.functional import check_nonlinearity, states
from porism.layers.recurrent.sequences import Sequences


class Elman(nn.Module):
    """A recurrent layer that feeds its state back.

    h[t] = act(x[t] I + h[t-1] H + b)

    >>> y, h = Elman(50, 100)(torch.randn(10, 4, 50))   # T B D -> T B H
    >>> y.shape, h.shape
    (torch.Size([10, 4, 100]), torch.Size([1, 4, 100]))

    It is called as `torch.nn.RNN` is and answers in the same shapes: batch first, without a batch, packed sequences,
    several layers, both directions. It differs in three points: `nonlinearity` may be "sigmoid" (and is, unless told
    otherwise), there is one bias for each layer and direction, and weights start Glorot-uniform, biases at zero.
    The state_dict of an nn.RNN loads strictly; its two biases become one.

    Shapes: x (T, B, D), hx (layers * directions, B, H) -> y (T, B, directions * H), h (layers * directions, B, H).
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
    ) -> None:
        super().__init__()
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            check_whole("elman", name, size)
        check_dropout("elman", "dropout", dropout)
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

    def forward(self, x: Tensor | PackedSequence, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """The states of the last layer, packed where x is, and the last state of every layer and direction."""
        if isinstance(x, PackedSequence):
            check_operands("elman", x=x.data, hx=hx)
            self._check_packed(x)
        else:
            check_operands("elman", x=x, hx=hx)
            self._check_input(x)
        sequences = Sequences.of(x, self.batch_first)
        first = self._first_states(sequences, hx)
        y = sequences.padded
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            if layer > 0:
                y = nn.functional.dropout(y, self.dropout, self.training)
            outputs = []
            for direction in self._directions:
                place = f"_l{layer}{direction}"
                h = states(
                    sequences.turn(y) if direction else y,
                    first[len(last)],
                    getattr(self, f"weight_ih{place}"),
                    getattr(self, f"weight_hh{place}"),
                    getattr(self, f"bias_ih{place}") if self.bias else None,
                    self.nonlinearity,
                )
                last.append(sequences.last(h))
                outputs.append(sequences.turn(h) if direction else h)
            y = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0]
        return sequences.like_input(y), sequences.states_like_input(torch.stack(last))

    def _first_states(self, sequences: Sequences, hx: Tensor | None) -> Tensor:
        """The state each layer and direction starts from, (layers * directions, B, H)."""
        number, B = self.num_layers * len(self._directions), sequences.padded.shape[1]
        if hx is None:
            return sequences.padded.new_zeros(number, B, self.hidden_size)
        wanted = (number, self.hidden_size) if sequences.unbatched else (number, B, self.hidden_size)
        if tuple(hx.shape) != wanted:
            named = "layers * directions, hidden_size" if sequences.unbatched else "layers * directions, B, hidden_size"
            raise ShapeError(
                f"elman: hx is {tuple(hx.shape)}, wanted {wanted}: {named}. "
                "Pass the state this layer gave for the same batch."
            )
        return sequences.states_from_input(hx)

    def _check_input(self, x: Tensor) -> None:
        shape = tuple(x.shape)
        order = "(B, T, D), batch_first," if self.batch_first else "(T, B, D)"
        if len(shape) not in (2, 3):
            raise ShapeError(
                f"elman: x is {shape}, {len(shape)} dimensions, wanted {order} or (T, D) without a batch. "
                "Add the missing dimension with x.unsqueeze."
            )
        self._check_width(shape)
        if shape[1 if self.batch_first and len(shape) == 3 else 0] == 0:
            raise ShapeError(f"elman: x is {shape}, no steps, wanted {order} with T from 1 on. Skip the batch.")

    def _check_packed(self, x: PackedSequence) -> None:
        shape, sizes = tuple(x.data.shape), x.batch_sizes
        if len(shape) != 2:
            raise ShapeError(f"elman: x is packed, {shape}, wanted (rows, D), a step of a sequence each. Flatten it.")
        self._check_width(shape)
        if len(sizes) == 0 or int(sizes.sum()) != len(x.data) or bool((sizes.diff() > 0).any()):
            raise ShapeError(
                f"elman: x is packed, {len(x.data)} rows, with batch_sizes that add up to {int(sizes.sum())}, wanted "
                f"{len(x.data)}, and none above the one before. Pack it with torch.nn.utils.rnn.pack_padded_sequence."
            )

    def _check_width(self, shape: tuple[int, ...]) -> None:
        if shape[-1] != self.input_size:
            raise ShapeError(
                f"elman: x is {shape}, width {shape[-1]}, wanted width {self.input_size}, the input_size. "
                f"Build the layer with input_size={shape[-1]}, or project x first."
            )

    def extra_repr(self) -> str:
        options = ("num_layers", "nonlinearity", "bias", "batch_first", "dropout", "bidirectional")
        settings = [f"{option}={getattr(self, option)!r}" for option in options]
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

"""The LSTM that people import."""

import math
import warnings
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from porism.errors import ShapeError
from porism.layers.autocast import autocast_dtype
from porism.layers.operands import check_dropout, check_operands, check_whole, is_transformed
from porism.layers.recurrent.dropout import draw_state_mask, drop_between_layers
from porism.layers.recurrent.elman.kernels.cudnn import in_one_chunk
from porism.layers.recurrent.lstm.functional import lstm, torch_is_faster
from porism.layers.recurrent.sequences import Sequences, outside_the_compiler

State = tuple[Tensor, Tensor]


class LSTM(nn.Module):
    """Long short-term memory: nn.LSTM with three more kinds of dropout.

    i, f, o = sigmoid(..), u = tanh(..) of x[t] I + h[t-1] H + b,   c[t] = f c[t-1] + i u,   h[t] = o tanh(c[t])

    >>> output, (h_n, c_n) = LSTM(50, 100)(torch.randn(10, 4, 50))   # T B D -> T B H
    >>> output.shape, h_n.shape, c_n.shape
    (torch.Size([10, 4, 100]), torch.Size([1, 4, 100]), torch.Size([1, 4, 100]))

    Its arguments, calls, parameters and initial numbers are those of `torch.nn.LSTM`, and state_dicts load strictly
    both ways. While training, `dropout` acts on the states between layers, a mask for each step, or with
    `variational` one mask for all steps (Gal); `weight_dropout` on weight_hh (AWD-LSTM); `recurrent_dropout` on h[t-1],
    one mask for all steps (keras).

    Shapes: input (T, B, D), hx two of (layers * directions, B, H) -> output (T, B, directions * H), (h_n, c_n) like hx.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        variational: bool = False,
        weight_dropout: float = 0.0,
        recurrent_dropout: float = 0.0,
    ) -> None:
        for name, size in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
            check_whole("lstm", name, size)
        for name, p in (
            ("dropout", dropout),
            ("weight_dropout", weight_dropout),
            ("recurrent_dropout", recurrent_dropout),
        ):
            check_dropout("lstm", name, p)
        if proj_size and (variational or recurrent_dropout):
            raise ShapeError(
                f"lstm: proj_size is {proj_size}, and variational and recurrent_dropout take states as wide as "
                "hidden_size. Leave out proj_size, or these two."
            )
        check_whole("lstm", "proj_size", proj_size, least=0, most=hidden_size - 1)
        if dropout and num_layers == 1:
            warnings.warn("lstm: dropout acts between layers, and there is one only. Set dropout=0.", stacklevel=2)
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        self.num_layers, self.proj_size = num_layers, proj_size
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = float(dropout)
        self.variational = variational
        self.weight_dropout = float(weight_dropout)
        self.recurrent_dropout = float(recurrent_dropout)
        self._directions = ("", "_reverse") if bidirectional else ("",)
        # Names, shapes and order of nn.LSTM's.
        out = proj_size or hidden_size
        for layer in range(num_layers):
            width = input_size if layer == 0 else len(self._directions) * out
            rows = 4 * hidden_size
            shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, out)}
            if bias:
                shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
            if proj_size:
                shapes["weight_hr"] = (proj_size, hidden_size)
            for direction in self._directions:
                for name, shape in shapes.items():
                    parameter = nn.Parameter(torch.empty(shape, device=device, dtype=dtype))
                    self.register_parameter(f"{name}_l{layer}{direction}", parameter)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As nn.LSTM: uniform within 1 / sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, input: Tensor | PackedSequence, hx: State | None = None) -> tuple[Any, State]:
        """The states of the last layer, packed where the input is, and the last state and memory of every layer."""
        if isinstance(input, PackedSequence) and torch.compiler.is_compiling():
            return self._forward_packed(input, hx)
        self._check_input(input, hx)
        if self._takes_torch_kernels(input):
            return self._by_kernels(input, hx)
        return self._by_layers(Sequences.of(input, self.batch_first), hx)

    _forward_packed = outside_the_compiler("lstm", forward)

    if TYPE_CHECKING:
        __call__ = forward

    def _takes_torch_kernels(self, input: Tensor | PackedSequence) -> bool:
        """Whether all layers are one call of torch.

        Its kernels know no masks and no torch.func, and on some CPUs no bfloat16. Ours take batches without padding
        where they are faster.
        """
        if self.training and (self.weight_dropout or self.recurrent_dropout or self.variational):
            return False
        data = input.data if isinstance(input, PackedSequence) else input
        if is_transformed(data, *self.parameters()) or (data.is_cpu and autocast_dtype(data)):
            return False
        if self.proj_size or isinstance(input, PackedSequence):
            return True
        batch_first = self.batch_first and data.dim() == 3
        B = data.shape[0 if batch_first else 1] if data.dim() == 3 else 1
        return torch_is_faster(data, B, getattr(self, "weight_hh_l0"))  # noqa: B009  # a plain tensor under torch.func

    def _by_kernels(self, input: Tensor | PackedSequence, hx: State | None) -> tuple[Any, State]:
        """All layers and directions in one call of torch's own."""
        packed = input if isinstance(input, PackedSequence) else None
        data = input.data if isinstance(input, PackedSequence) else input
        unbatched = packed is None and data.dim() == 2
        if unbatched:
            data, hx = data.unsqueeze(1), None if hx is None else (hx[0].unsqueeze(1), hx[1].unsqueeze(1))
        batch_first = self.batch_first and not unbatched and packed is None
        B = int(packed.batch_sizes[0]) if packed is not None else data.shape[0 if batch_first else 1]
        number = self.num_layers * len(self._directions)
        if hx is None:
            h_0, c_0 = (
                data.new_zeros(number, B, width) for width in (self.proj_size or self.hidden_size, self.hidden_size)
            )
        else:
            h_0, c_0 = hx
            self._check_states(h_0, c_0, B)
            if packed is not None and packed.sorted_indices is not None:
                h_0, c_0 = (part.index_select(1, packed.sorted_indices) for part in (h_0, c_0))
        weights: list[Tensor] = list(self.parameters())
        weights = in_one_chunk(weights) if data.is_cuda else weights
        # cuDNN goes back only through what it computed in training mode, so that mode is not the layer's.
        dropout, train = self.dropout if self.training else 0.0, self.training or torch.is_grad_enabled()
        settings = (self.bias, self.num_layers, dropout, train, self.bidirectional)
        if packed is None:
            output, h_n, c_n = torch._VF.lstm(data, (h_0, c_0), weights, *settings, batch_first)
            if unbatched:
                output, h_n, c_n = (part.squeeze(1) for part in (output, h_n, c_n))
            return output, (h_n, c_n)
        output, h_n, c_n = torch._VF.lstm(data, packed.batch_sizes, (h_0, c_0), weights, *settings)
        if packed.unsorted_indices is not None:
            h_n, c_n = (part.index_select(1, packed.unsorted_indices) for part in (h_n, c_n))
        return PackedSequence(output, *packed[1:]), (h_n, c_n)

    def _by_layers(self, sequences: Sequences, hx: State | None) -> tuple[Any, State]:
        """Layer after layer, with the masks that torch's kernels do not know."""
        y, number = sequences.padded, self.num_layers * len(self._directions)
        if hx is None:
            first_h = first_c = y.new_zeros(number, y.shape[1], self.hidden_size)
        else:
            first_h, first_c = (sequences.states_from_input(part) for part in hx)
            self._check_states(first_h, first_c, y.shape[1])
        last: list[State] = []
        for layer in range(self.num_layers):
            if layer > 0 and self.dropout and self.training:
                y = drop_between_layers(y, self.dropout, self.variational)
            outputs = []
            for direction in self._directions:
                x = sequences.reverse(y) if direction else y
                h, state = self._one(sequences, x, (first_h[len(last)], first_c[len(last)]), f"_l{layer}{direction}")
                last.append(state)
                outputs.append(sequences.reverse(h) if direction else h)
            y = torch.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
        h_n, c_n = (
            sequences.states_like_input(torch.stack(part) if len(part) > 1 else part[0][None])
            for part in zip(*last, strict=True)
        )
        return sequences.like_input(y), (h_n, c_n)

    def _one(self, sequences: Sequences, x: Tensor, hx: State, suffix: str) -> tuple[Tensor, State]:
        """One layer in one direction: states (T, B, H), and the last state and memory of every sequence."""
        names = ("weight_ih", "weight_hh", *(("bias_ih", "bias_hh") if self.bias else ()))
        weight_ih, weight_hh, *biases = (getattr(self, name + suffix) for name in names)
        bias_ih, bias_hh = biases or (None, None)
        kept = (
            nn.functional.dropout(weight_hh, self.weight_dropout)
            if self.weight_dropout and self.training
            else weight_hh
        )
        mask = (
            draw_state_mask(weight_hh, x.shape[1], self.recurrent_dropout)
            if self.recurrent_dropout and self.training
            else None
        )
        if sequences.inside is None:
            return lstm(x, hx, weight_ih, kept, bias_ih, bias_hh, mask)
        # Of sequences that end early: the memory at every step, to take each one's last.
        states, (h, c) = [], hx
        for x_t, inside in zip(x, sequences.inside, strict=True):
            _, (h_t, c_t) = lstm(x_t[None], (h, c), weight_ih, kept, bias_ih, bias_hh, mask)
            h, c = torch.where(inside[:, None], h_t, h), torch.where(inside[:, None], c_t, c)
            states.append(h_t)
        return torch.stack(states), (h, c)

    def _check_states(self, h_0: Tensor, c_0: Tensor, B: int) -> None:
        number = self.num_layers * len(self._directions)
        for name, part, width in (("h_0", h_0, self.proj_size or self.hidden_size), ("c_0", c_0, self.hidden_size)):
            shape = (number, B, width)
            if tuple(part.shape) != shape:
                raise ShapeError(
                    f"lstm: {name} is {tuple(part.shape)}, expected {shape}: layers * directions, B, width. "
                    "Pass the states this layer gave for the same batch."
                )

    def _check_input(self, input: Any, hx: Any) -> None:
        """Kinds, types and devices; shapes are what nn.LSTM checks, and what `lstm` checks."""
        data = input.data if isinstance(input, PackedSequence) else input
        if hx is not None and (not isinstance(hx, tuple | list) or len(hx) != 2):
            raise ShapeError(f"lstm: hx is a {type(hx).__name__}, expected the two tensors (h_0, c_0). Pass both.")
        h_0, c_0 = (None, None) if hx is None else hx
        weight: Tensor = getattr(self, "weight_ih_l0")  # noqa: B009  # a plain tensor under torch.func
        check_operands("lstm", input=data, h_0=h_0, c_0=c_0, weight_ih=weight)
        if not isinstance(input, PackedSequence) and input.dim() not in (2, 3):
            raise ShapeError(
                f"lstm: input is {tuple(input.shape)}, expected three dimensions, or (T, D) without a batch. "
                "Add the missing dimension with input.unsqueeze."
            )
        if data.shape[-1] != self.input_size:
            raise ShapeError(
                f"lstm: input is {tuple(data.shape)}, width {data.shape[-1]}, expected width {self.input_size}, the "
                f"input_size. Build the layer with input_size={data.shape[-1]}, or project the input first."
            )
        steps = data.shape[1 if self.batch_first and data.dim() == 3 else 0]
        if steps == 0:
            raise ShapeError(f"lstm: input is {tuple(data.shape)}, no steps, expected T from 1 on. Skip the batch.")

    def extra_repr(self) -> str:
        options = ("num_layers", "bias", "batch_first", "dropout", "bidirectional")
        settings = [f"{option}={getattr(self, option)!r}" for option in options]
        changed = ("proj_size", "variational", "weight_dropout", "recurrent_dropout")
        settings += [f"{option}={value}" for option in changed if (value := getattr(self, option))]
        return ", ".join([str(self.input_size), str(self.hidden_size), *settings])

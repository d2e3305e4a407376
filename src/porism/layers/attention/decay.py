"""How fast keys decay, as a layer learns it."""

import math
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, logsigmoid

from porism.errors import ShapeError

DecayKind = Literal["head", "token"]

STARTING_DECAY = 1 / 32, 1 / 512
"""What the first head loses of a key at a step before anything is learned, and the last; the others lie between."""


class DecayGate(nn.Module):
    """log sigmoid(b) for each key head, or log sigmoid(x W + b) for each of its steps too: `log_decay` of attention.

    >>> DecayGate("head", num_heads=2, width=8)(torch.randn(3, 5, 8)).shape                # T B D -> G
    torch.Size([2])
    >>> DecayGate("token", num_heads=2, width=8)(torch.randn(3, 5, 8)).shape               # T B D -> B G T
    torch.Size([5, 2, 3])

    It starts without a look at the tokens, with heads that remember for tens of steps to hundreds.
    """

    def __init__(
        self,
        kind: DecayKind,
        num_heads: int,
        width: int,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.kind, self.batch_first = kind, batch_first
        weight = torch.empty(num_heads, width, device=device, dtype=dtype) if kind == "token" else None
        self.weight = None if weight is None else nn.Parameter(weight)
        self.bias = nn.Parameter(torch.empty(num_heads, device=device, dtype=dtype))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        most, least = (math.log2(part) for part in STARTING_DECAY)
        lost = torch.logspace(most, least, len(self.bias), base=2.0)
        self.bias.copy_(torch.logit(1 - lost))
        if self.weight is not None:
            self.weight.zero_()

    def forward(self, key: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """From what keys are made of, (B, T, D), (T, B, D) or (T, D), with True for pads (B, T): float32 or better."""
        gate: Tensor = self.bias
        if self.weight is not None:
            if key_padding_mask is not None:
                # A weight's gradient of 0 times the NaN of a pad is NaN.
                pads = key_padding_mask if self.batch_first else key_padding_mask.mT
                key = key.masked_fill(pads.view(*key.shape[:-1], 1), 0)
            gates = linear(key, self.weight, self.bias)
            gates = gates.unsqueeze(0) if gates.dim() == 2 else gates if self.batch_first else gates.transpose(0, 1)
            gate = gates.mT
        return logsigmoid(gate.to(torch.promote_types(gate.dtype, torch.float32)))

    def extra_repr(self) -> str:
        return f"{self.kind!r}, num_heads={len(self.bias)}"


def check_decay(decay: str | None) -> None:
    if decay is not None and decay not in get_args(DecayKind):
        raise ShapeError(f"attention: decay is {decay!r}. Give 'head', 'token', or None for keys that do not decay.")

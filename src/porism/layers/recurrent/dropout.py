"""Dropout of recurrent layers: between layers, of recurrent weights, of the state that is fed back."""

import torch
from torch import Tensor
from torch.nn.functional import dropout


def drop_between_layers(y: Tensor, p: float, variational: bool) -> Tensor:
    """The states of a layer (T, B, H) on their way to the next; `variational`: one mask for all steps (Gal)."""
    if not variational:
        return dropout(y, p)
    return y * dropout(torch.ones_like(y[:1]), p)


def draw_state_mask(weight_hh: Tensor, B: int, p: float) -> Tensor:
    """What h[t-1] is multiplied with at every step of a call, (B, H): 0, or 1 / (1 - p). As in keras."""
    return dropout(weight_hh.new_ones(B, weight_hh.shape[1]), p)

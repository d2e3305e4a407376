"""The oracle: pixel after pixel, as the equations of the README stand. Row vectors throughout."""

import torch
from torch import Tensor

ACTIVATIONS = {"sigmoid": torch.sigmoid, "tanh": torch.tanh, "relu": torch.relu}


def grid(
    x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor | None = None, nonlinearity: str = "sigmoid"
) -> Tensor:
    """h[i,j] = act(x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b), i a column and j a row, zero outside.

    x (B, C, Y, X), W_in (C, H), W_left and W_top (H, H), b (H) -> (B, H, Y, X).
    """
    B, _, Y, X = x.shape
    outside = x.new_zeros(B, len(W_left))
    h: dict[tuple[int, int], Tensor] = {}
    for j, row in enumerate(x.unbind(2)):
        for i, pixel in enumerate(row.unbind(2)):
            left, top = h.get((i - 1, j), outside), h.get((i, j - 1), outside)
            z = pixel @ W_in + left @ W_left + top @ W_top
            h[i, j] = ACTIVATIONS[nonlinearity](z if b is None else z + b)
    return _image(h, Y, X)


def grid_lstm(x: Tensor, W_in: Tensor, W_left: Tensor, W_top: Tensor, b: Tensor | None = None) -> Tensor:
    """The same with an LSTM cell, which forgets to the left and to the top apart.

    [in, keep_left, keep_top, out, new] = x[i,j] W_in + h[i-1,j] W_left + h[i,j-1] W_top + b
    c[i,j] = s(in) tanh(new) + s(keep_left) c[i-1,j] + s(keep_top) c[i,j-1],   h[i,j] = s(out) tanh(c[i,j]),   s sigmoid

    x (B, C, Y, X), W_in (C, 5H), W_left and W_top (H, 5H), b (5H) -> (B, H, Y, X).
    """
    B, _, Y, X = x.shape
    outside = x.new_zeros(B, len(W_left))
    h: dict[tuple[int, int], Tensor] = {}
    c: dict[tuple[int, int], Tensor] = {}
    for j, row in enumerate(x.unbind(2)):
        for i, pixel in enumerate(row.unbind(2)):
            left, top = (i - 1, j), (i, j - 1)
            z = pixel @ W_in + h.get(left, outside) @ W_left + h.get(top, outside) @ W_top
            let_in, keep_left, keep_top, let_out, new = (z if b is None else z + b).chunk(5, -1)
            c[i, j] = (
                torch.sigmoid(let_in) * torch.tanh(new)
                + torch.sigmoid(keep_left) * c.get(left, outside)
                + torch.sigmoid(keep_top) * c.get(top, outside)
            )
            h[i, j] = torch.sigmoid(let_out) * torch.tanh(c[i, j])
    return _image(h, Y, X)


def rotated(x: Tensor, direction: str) -> Tensor:
    """The image (B, C, Y, X) with the named direction at its top left. Twice is nothing.

    >>> rotated(torch.tensor([[[[1, 2], [3, 4]]]]), "bottom-left").flatten().tolist()
    [3, 4, 1, 2]
    """
    vertical, horizontal = direction.split("-")
    flipped = [dim for dim, turn in ((2, vertical == "bottom"), (3, horizontal == "right")) if turn]
    return x.flip(flipped) if flipped else x


def _image(h: dict[tuple[int, int], Tensor], Y: int, X: int) -> Tensor:
    return torch.stack([torch.stack([h[i, j] for i in range(X)], -1) for j in range(Y)], -2)

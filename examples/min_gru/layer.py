"""The module that people import."""

import torch
from torch import Tensor, nn

from examples.min_gru.functional import min_gru


class MinGRU(nn.Module):
    """minGRU, a recurrent layer whose gates depend on the input alone (Feng et al., 2024).

    h[t] = z[t] h[t-1] + (1 - z[t]) c[t],   z[t] = sigmoid(Wz x[t]),   c[t] = Wc x[t]

    >>> MinGRU(50, 100)(torch.randn(10, 4, 50)).shape      # T B D -> T B H
    torch.Size([10, 4, 100])
    """

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.weight_z = nn.Parameter(torch.empty(hidden_size, input_size))
        self.weight_c = nn.Parameter(torch.empty(hidden_size, input_size))
        for weight in self.parameters():
            nn.init.xavier_uniform_(weight)

    def forward(self, input: Tensor) -> Tensor:
        return min_gru(input, self.weight_z, self.weight_c)

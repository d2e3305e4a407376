"""Features divided by the sum of their row, dense or sparse."""

import torch
from torch import Tensor

from porism.layers.gcn.adjacency.csr import rows_of
from porism.tasks.graphs.labelled import Features


def row_normalised(x: Features) -> Features:
    """Each node's features divided by the sum of their sizes; a node without any stays.

    >>> row_normalised(torch.tensor([[1.0, 3.0], [0.0, 0.0], [-1.0, 1.0]]))
    tensor([[ 0.2500,  0.7500],
            [ 0.0000,  0.0000],
            [-0.5000,  0.5000]])

    Of counts that is the sum itself. Numbers of both signs may sum to next to nothing, which nothing should be divided
    by.
    """
    if isinstance(x, Tensor):
        sums = x.abs().sum(1, keepdim=True)
        return x / torch.where(sums == 0, 1, sums)
    values, rows = x.there.values, rows_of(x.there.starts)
    sums = values.new_zeros(x.there.height).index_add(0, rows, values.abs())
    return x.with_values(values / torch.where(sums == 0, 1, sums)[rows])

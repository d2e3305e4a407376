"""Inputs of the cases."""

import torch
from torch import Tensor


def asking(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """An input that asks for a gradient."""
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def words(vocabulary: int, *shape: int) -> Tensor:
    return torch.randint(vocabulary, shape)


def graph(nodes: int, edges: int, layout: torch.layout, learned: bool = False) -> Tensor:
    """A sparse square matrix with a one for each edge."""
    positions = torch.arange(edges) * (nodes * nodes // edges)
    ends, ones = torch.stack([positions // nodes, positions % nodes]), torch.ones(edges)
    with torch.sparse.check_sparse_tensor_invariants():
        matrix = torch.sparse_coo_tensor(ends, ones, (nodes, nodes))
        return matrix.coalesce().to_sparse(layout=layout).requires_grad_(learned)

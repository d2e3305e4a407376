"""Sparse products: what is stored counts, not what is not."""

import torch

from counter_cases.case import Case, call
from counter_cases.inputs import asking, graph
from counter_cases.models import GraphConvolution
from porism.costing.alphabet import D, E, H, N

SPARSE = [
    Case(
        "sparse.mm, CSR",
        lambda N, E, H: call(torch.sparse.mm, graph(N, E, torch.sparse_csr), asking(N, H)),
        2 * E * H,
        2 * E * H,
        needs_values=True,
    ),
    Case(
        "sparse.mm, COO",
        lambda N, E, H: call(torch.sparse.mm, graph(N, E, torch.sparse_coo), asking(N, H)),
        2 * E * H,
        2 * E * H,
        needs_values=True,
    ),
    Case(
        "sparse.mm, CSR learned",
        lambda N, E, H: call(torch.sparse.mm, graph(N, E, torch.sparse_csr, learned=True), asking(N, H)),
        2 * E * H,
        # A dot product for each stored element.
        4 * E * H,
        needs_values=True,
    ),
    Case(
        "sparse.mm, COO learned",
        lambda N, E, H: call(torch.sparse.mm, graph(N, E, torch.sparse_coo, learned=True), asking(N, H)),
        2 * E * H,
        # torch makes a dot product for every pair of nodes and keeps the stored ones.
        2 * E * H + 2 * N**2 * H,
        needs_values=True,
    ),
    Case(
        "sparse.sampled_addmm",
        lambda N, E, D: call(
            torch.sparse.sampled_addmm, graph(N, E, torch.sparse_csr), asking(N, D), asking(D, N), beta=0.0
        ),
        2 * E * D,
        4 * E * D,
        needs_values=True,
    ),
    Case(
        "graph convolution",
        lambda N, E, D, H: call(GraphConvolution(D, H), graph(N, E, torch.sparse_csr), asking(N, D)),
        2 * N * D * H + 2 * E * H,
        4 * N * D * H + 2 * E * H,
        needs_values=True,
    ),
]

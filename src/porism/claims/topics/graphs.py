"""Graph convolutions: what happens to a graph before features are sent along its edges.

The truth comes from the layer's own code (`layers/gcn`), the forms are dense matrices: A is (N, N) float64, row i holds
the edges that lead to node i.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from porism.claims.checks.compare import compared
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.gcn import Graph
from porism.layers.gcn.naive import adjacency
from porism.runs.exhibits import Lines

OfMatrix = Callable[[Tensor], Tensor]
_AXES = {"rows": 1, "columns": 0}


def random_edges(N: int = 12, chance: float = 0.3, seed: int = 1) -> Tensor:
    """An undirected graph by chance, both directions of each edge, (2, E). No node is alone."""
    draw = torch.rand(N, N, generator=torch.Generator().manual_seed(seed)).triu(1)
    linked = (draw > 1 - chance).nonzero().T
    edges: Tensor = torch.cat([_both_ways(linked), ring(N)], 1).unique(dim=1)
    return edges


def star(leaves: int) -> Tensor:
    """Node 0 in the middle."""
    return _both_ways(torch.stack([torch.zeros(leaves, dtype=torch.long), torch.arange(1, leaves + 1)]))


def ring(N: int) -> Tensor:
    return _both_ways(torch.stack([torch.arange(N), (torch.arange(N) + 1) % N]))


def _both_ways(edges: Tensor) -> Tensor:
    return torch.cat([edges, edges.flip(0)], 1)


GRAPHS = {"a random graph": random_edges(), "a star of 1,000 leaves": star(1000), "a ring": ring(7)}
WITH_LOOP = torch.cat([random_edges(), torch.tensor([[0], [0]])], 1)


def propagation(edges: Tensor, normalization: str, add_self_loops: bool = True) -> Tensor:
    """What the layer multiplies features by, as a dense matrix."""
    return Graph(edges).to_dense(normalization, add_self_loops, torch.float64)


def with_loops(form: OfMatrix) -> Finding:
    """Every node once among its own neighbours: form(A) against the layer's A + I."""
    cases = [("no loops before", random_edges()), ("a loop at node 0 before", WITH_LOOP)]
    return compared(
        (where, propagation(edges, "none"), form(adjacency(edges, 12, loop_weight=0))) for where, edges in cases
    )


def row_sums(normalisation: str) -> Callable[[OfMatrix], Finding]:
    """form(A + I) against the row sums of what the layer multiplies by."""

    def judge(form: OfMatrix) -> Finding:
        return compared(
            (where, propagation(edges, normalisation).sum(1), form(propagation(edges, "none")))
            for where, edges in GRAPHS.items()
        )

    return judge


def symmetric_entries(form: OfMatrix) -> Finding:
    """form(A) against the layer's symmetric normalisation."""
    edges = random_edges()
    return compared([("a random graph", propagation(edges, "sym"), form(adjacency(edges, 12, loop_weight=0)))])


def with_and_without_lonely_node(form: OfMatrix) -> Finding:
    """form(A) against row sums of the layer's D^-1 A without loops, where every node has an edge and where not."""
    edges = random_edges()

    def sums(N: int) -> Tensor:
        return Graph(edges, num_nodes=N).to_dense("rw", add_self_loops=False, dtype=torch.float64).sum(1)

    kinds = {"a random graph": 12, "a graph with a lonely node": 13}
    return compared((where, sums(N), form(adjacency(edges, N, loop_weight=0))) for where, N in kinds.items())


def degrees(form: OfMatrix) -> Finding:
    """form(A) against the number of other nodes that each node is linked with, counted edge by edge."""
    undirected = random_edges()
    one_way = undirected[:, undirected[0] < undirected[1]]
    weights = torch.linspace(0.5, 3, undirected.shape[1], dtype=torch.float64)
    partners = [len({int(b) for a, b in undirected.T if a == node}) for node in range(12)]
    kinds = {
        "unweighted, undirected": adjacency(undirected, 12, loop_weight=0),
        "weighted": adjacency(undirected, 12, weights, loop_weight=0),
        "directed": adjacency(one_way, 12, loop_weight=0),
    }
    return compared((where, partners, form(A)) for where, A in kinds.items())


def sums_of_normalised(form: Callable[[Tensor, str], Tensor]) -> Finding:
    """form(A + I, along) against the sums of the layer's D^-1 A along rows, and down columns."""
    edges = random_edges()
    ahat, A = propagation(edges, "rw"), propagation(edges, "none")
    return compared((f"a random graph, {along}", ahat.sum(axis), form(A, along)) for along, axis in _AXES.items())


def spectrum(form: OfMatrix) -> Finding:
    """form(A) against the eigenvalues of what the layer multiplies by, on a graph with two sides."""
    edges = star(6)
    true = torch.linalg.eigvalsh(propagation(edges, "sym"))
    return compared([("a star of 6 leaves", true, form(adjacency(edges, 7, loop_weight=0)))])


def softmax_rows(form: OfMatrix) -> Finding:
    """form(A + I) against the layer's softmax over the neighbors, also where all nodes are neighbours."""
    kinds = {"a random graph": random_edges(), "all linked with all": random_edges(chance=1.0)}
    return compared(
        (where, propagation(edges, "softmax"), form(propagation(edges, "none"))) for where, edges in kinds.items()
    )


def _identity(A: Tensor) -> Tensor:
    return torch.eye(len(A), dtype=A.dtype)


def _symmetric(A: Tensor) -> Tensor:
    scale = A.sum(1).rsqrt()
    return scale[:, None] * A * scale


def _sums_of_symmetric(A: Tensor) -> Tensor:
    # d_i^-1/2 sum_j a_ij d_j^-1/2
    d = A.sum(1)
    return d.rsqrt() * (A @ d.rsqrt())


def _column_sums(A: Tensor) -> Tensor:
    # sum_i a_ij / d_i
    return A.T @ A.sum(1).reciprocal()


def _hub_of_stars() -> Lines:
    leaves = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
    found = [(float(m), float(propagation(star(m), "sym").sum(1)[0])) for m in leaves]
    row = [(float(m), float(propagation(star(m), "rw").sum(1)[0])) for m in leaves]
    return Lines(
        title="The row of a star's hub",
        about="Symmetric normalisation lets the sum grow like the square root of the leaves; D^-1 A keeps it at one.",
        x="leaves",
        y="sum of the hub's row",
        lines={"symmetric": found, "row": row},
        log_x=True,
        log_y=True,
    )


def _loops_by_identity(id: str, where: str, says: str) -> Claim[OfMatrix]:
    return Claim(
        id=id,
        topic="graphs",
        where=where,
        says=says,
        verdict="holds under assumptions",
        precise="No node has a loop before; one that has is doubled.",
        judge=with_loops,
        stated=lambda A: A + _identity(A),
        corrected=lambda A: A + _identity(A) * (A.diagonal() == 0),
        assumed=lambda A: not bool(A.diagonal().any()),
    )


CLAIMS: tuple[Statement, ...] = (
    _loops_by_identity(
        "000-21", "I.3(a)", "Adding the identity to the adjacency matrix makes every node a neighbour of itself."
    ),
    Claim(
        id="000-22",
        topic="graphs",
        where="I.3(b)",
        says="The rows of A + I are not normalised, so that multiplying by it changes the scale of features.",
        verdict="holds",
        precise="Row i sums to the degree of node i and one.",
        judge=row_sums("none"),
        stated=lambda A: (A - _identity(A)).count_nonzero(1) + 1.0,
        rival=lambda A: torch.ones(len(A)),
    ),
    Claim(
        id="000-23",
        topic="graphs",
        where="I.3(b)",
        says="Each entry is divided by the degrees of the two nodes it connects, D being the degrees of the graph.",
        verdict="imprecise",
        precise="It is divided by the root of their product, D being the degrees of A + I, one more than those of A.",
        formulas=("a/sqrt(d_i*d_j)",),
        judge=symmetric_entries,
        stated=lambda A: (A + _identity(A)) / (A.sum(1)[:, None] * A.sum(1)),
        corrected=lambda A: _symmetric(A + _identity(A)),
    ),
    Claim(
        id="000-24",
        topic="graphs",
        where="I.3(b)",
        says="Symmetric normalisation makes the rows sum to one, so that features keep their scale.",
        verdict="wrong",
        precise=(
            "Row i sums to d_i^-1/2 times the sum of d_j^-1/2 over its neighbours and itself, which is one everywhere "
            "only where every connected part is regular; the hub of a star with m leaves has a sum that grows "
            "without bound. What is bounded is the spectrum: no eigenvalue is larger than one. Rows that sum to one "
            "are D^-1 A's."
        ),
        formulas=("1/(m + 1) + m/sqrt(2*(m + 1))",),
        picture=_hub_of_stars,
        judge=row_sums("sym"),
        stated=lambda A: torch.ones(len(A)),
        corrected=_sums_of_symmetric,
        right_where=lambda A: bool((A.sum(1) == A.sum(1)[0]).all()),
    ),
    _loops_by_identity("001-53", "3(c)", "Self-loops are added by A + I."),
    Claim(
        id="001-54",
        topic="graphs",
        where="3(d)",
        says="Row i of A sums to the degree of node i.",
        verdict="holds under assumptions",
        precise="The graph is undirected and has no weights; otherwise entries are counted, in both directions.",
        judge=degrees,
        stated=lambda A: A.sum(1),
        corrected=lambda A: ((A != 0) | (A.T != 0)).sum(1),
        assumed=lambda A: bool(((A == 0) | (A == 1)).all() and (A == A.T).all()),
    ),
    Claim(
        id="001-55",
        topic="graphs",
        where="3(d)",
        says="Normalising A, its rows divided by their degrees, brings the degree of every node to one.",
        verdict="holds under assumptions",
        precise=(
            "The degree is what a row sums to. The columns of D^-1 A sum to something else, and it is not symmetric."
        ),
        judge=sums_of_normalised,
        stated=lambda A, along: torch.ones(len(A), dtype=A.dtype),
        corrected=lambda A, along: torch.ones(len(A), dtype=A.dtype) if along == "rows" else _column_sums(A),
        assumed=lambda A, along: along == "rows",
    ),
    Claim(
        id="001-56",
        topic="graphs",
        where="3(d)",
        says="The rows of D^-1 A sum to one.",
        verdict="holds under assumptions",
        precise="Every node has an edge, as loops see to; the row of a lonely one is empty.",
        judge=with_and_without_lonely_node,
        stated=lambda A: torch.ones(len(A)),
        corrected=lambda A: (A.sum(1) > 0).double(),
        assumed=lambda A: bool((A.sum(1) > 0).all()),
    ),
    Claim(
        id="001-57",
        topic="graphs",
        where="3(d)",
        says="One uses D^-1/2 A D^-1/2, as the paper on graph convolutions does.",
        verdict="imprecise",
        precise=(
            "The paper normalises A + I. Without loops a graph of two sides has the eigenvalue -1, so that features "
            "swing for ever; and neither form makes rows sum to one."
        ),
        judge=spectrum,
        stated=lambda A: torch.linalg.eigvalsh(_symmetric(A)),
        corrected=lambda A: torch.linalg.eigvalsh(_symmetric(A + _identity(A))),
    ),
    Claim(
        id="001-58",
        topic="graphs",
        where="3(d)",
        says="One could normalise by a softmax of each row.",
        verdict="imprecise",
        precise=(
            "Only over the entries that are edges: exp(0) is one, so that over all of them most of the weight falls on "
            "nodes that are no neighbours. Over edges of equal weight it is D^-1 A."
        ),
        judge=softmax_rows,
        stated=lambda A: A.softmax(1),
        corrected=lambda A: A.masked_fill(A == 0, -torch.inf).softmax(1),
        right_where=lambda A: bool((A > 0).all()),
    ),
)

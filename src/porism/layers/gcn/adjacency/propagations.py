"""The normalized adjacency matrices of a graph: built when first read, and kept."""

from hashlib import sha256
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.compiling import assume_constant_result
from porism.layers.gcn.adjacency.csr import Csr, transpose, versions
from porism.layers.gcn.adjacency.edges import Neighbors, with_loops
from porism.layers.gcn.adjacency.modes import outside_modes
from porism.layers.gcn.adjacency.normalize import FLOWS, NORMALIZATIONS, Normalization, normalize


class Propagation(NamedTuple):
    """Ahat, and its transposed for the backward pass. A symmetric one is its own."""

    there: Csr
    back: Csr


PROPAGATIONS = {
    how.matrix_name(dtype): (how, dtype)
    for how in (Normalization(*parts) for parts in product(NORMALIZATIONS, (0, 1, 2), FLOWS))
    for dtype in (torch.float32, torch.float64)
}

NEIGHBORS = {f"neighbors_plus_{loop_weight}": loop_weight for loop_weight in (1, 2)}

BUILT = (*PROPAGATIONS, *NEIGHBORS)


class Propagations:
    """What is derived from the edges of a graph, as attributes that are built when they are first read.

    - `sym_plus_1_source_to_target_float32` and the other names of PROPAGATIONS: a `Propagation`
    - `neighbors_plus_1`, `neighbors_plus_2`: the rows of A + I and of A + 2 I
    - `digest`: sha256 of edges and weights, a tensor of 32 bytes on the CPU

    A compiled layer reads them as its own inputs, so that its output is that of the graph it is given. The compiler's
    guards read attributes too, and so build those of a graph that is new to the layer: it is not compiled again.
    """

    def __init__(self, neighbors: Neighbors) -> None:
        self.neighbors = neighbors
        self._versions: dict[str, tuple[int, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in BUILT and self.neighbors.starts.is_meta:
            raise ShapeError(
                "gcn: the graph is on meta, where its edges cannot be read. "
                "Call graph.propagation(...) before graph.to('meta'), or count with an Outline."
            )
        if name in PROPAGATIONS:
            built: Any = outside_modes(self._propagation, *PROPAGATIONS[name])
            self._versions[name] = _versions(built)
        elif name in NEIGHBORS:
            built = outside_modes(with_loops, self.neighbors, NEIGHBORS[name])
        elif name == "digest":
            built = outside_modes(_digest, self.neighbors)
        else:
            raise AttributeError(f"Propagations have no {name}.")
        setattr(self, name, built)
        return built

    # The compiler runs this as it is. It reads the attribute itself afterwards, under guards.
    @assume_constant_result
    def build(self, name: str) -> None:
        """Builds an attribute, and refuses a matrix that was changed in place since: its transposed would not be."""
        built = getattr(self, name)
        if name in self._versions and _versions(built) != self._versions[name]:
            raise ShapeError(
                "gcn: a matrix of the graph was changed in place, and its transposed was not. "
                "Make a new graph with other weights."
            )

    def to(self, device: torch.device | str) -> "Propagations":
        """The same on another device, with all that was built."""
        moved = Propagations(self.neighbors.to(device))
        for name, built in vars(self).items():
            if name in PROPAGATIONS:
                there, back = built
                on_device = there.to(device)
                setattr(moved, name, Propagation(on_device, on_device if back is there else back.to(device)))
                moved._versions[name] = _versions(getattr(moved, name))
            elif name in NEIGHBORS:
                setattr(moved, name, built.to(device))
            elif name == "digest":
                setattr(moved, name, built)
        return moved

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies count their changes from the beginning.
        vars(self).update(state)
        self._versions = {name: _versions(built) for name, built in state.items() if name in PROPAGATIONS}

    def _propagation(self, how: Normalization, dtype: torch.dtype) -> Propagation:
        neighbors = getattr(self, f"neighbors_plus_{how.loop_weight}") if how.loop_weight else self.neighbors
        if how.flow == "target_to_source":
            neighbors = neighbors.reversed()
        there = Csr(neighbors.starts, neighbors.columns, normalize(neighbors, how.kind, dtype))
        back = transpose(there.starts, there.columns, neighbors.nodes).of(there.values)
        # The matrix of an undirected graph may be its own transposed: the same numbers need no memory twice.
        if torch.equal(there.starts, back.starts) and torch.equal(there.columns, back.columns):
            back = there if torch.equal(there.values, back.values) else Csr(there.starts, there.columns, back.values)
        return Propagation(there, back)


def _versions(propagation: Propagation) -> tuple[int, ...]:
    there, back = propagation
    return versions(*there) if back is there else versions(*there, *back)


def _digest(neighbors: Neighbors) -> Tensor:
    digest = sha256()
    for part in neighbors:
        if part is None or part.is_meta:
            # Of a graph on meta only sizes are known.
            digest.update(repr(part).encode())
        else:
            numbers = part.double() if part.is_floating_point() else part
            digest.update(numbers.cpu().numpy().tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8, device="cpu")

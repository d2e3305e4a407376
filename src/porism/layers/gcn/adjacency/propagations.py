"""The matrices that spread features over a graph: built when first read, and kept."""

from hashlib import sha256
from typing import Any, NamedTuple

import torch
from torch import Tensor

from porism.errors import ShapeError
from porism.layers.compiling import assume_constant_result
from porism.layers.gcn.adjacency.csr import Csr, transpose, versions
from porism.layers.gcn.adjacency.edges import Neighbours, with_loops
from porism.layers.gcn.adjacency.modes import outside_modes
from porism.layers.gcn.adjacency.normalize import NORMALISATIONS, normalise


class Propagation(NamedTuple):
    """Ahat, and its transposed for the way back. A symmetric one is its own."""

    there: Csr
    back: Csr


def name_of(normalisation: str, self_loops: bool, dtype: torch.dtype) -> str:
    """The attribute that holds a propagation: sums are of float64 for float64, and of float32 for all else."""
    precision = "float64" if dtype is torch.float64 else "float32"
    return f"{normalisation}_{'with' if self_loops else 'without'}_loops_{precision}"


PROPAGATIONS = {
    name_of(normalisation, self_loops, dtype): (normalisation, self_loops, dtype)
    for normalisation in NORMALISATIONS
    for self_loops in (True, False)
    for dtype in (torch.float32, torch.float64)
}


BUILT = (*PROPAGATIONS, "neighbours_with_loops")


class Propagations:
    """What is derived from the edges of a graph, as attributes that are built when they are first read.

    - `symmetric_with_loops_float32` and the other names of PROPAGATIONS: a `Propagation`
    - `neighbours_with_loops`: the rows of A + I
    - `digest`: tells graphs apart by their edges and weights, sha256 in a tensor of 32 bytes on the CPU

    A compiled layer reads them as its own inputs, so that it answers for the graph it is given. The compiler's guards
    read attributes too, and so build those of a graph that the layer has not seen before: it is not compiled again.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        self.neighbours = neighbours
        self._versions: dict[str, tuple[int, ...]] = {}

    def __getattr__(self, name: str) -> Any:
        if name in BUILT and self.neighbours.starts.is_meta:
            raise ShapeError(
                "gcn: the graph is on meta, where nothing can be built of its edges. "
                "Ask for graph.propagation(...) before graph.to('meta'), or count with an Outline."
            )
        if name in PROPAGATIONS:
            built: Any = outside_modes(self._propagation, *PROPAGATIONS[name])
            self._versions[name] = _versions(built)
        elif name == "neighbours_with_loops":
            built = outside_modes(with_loops, self.neighbours)
        elif name == "digest":
            built = outside_modes(_digest, self.neighbours)
        else:
            raise AttributeError(f"Propagations have no {name}.")
        setattr(self, name, built)
        return built

    # The compiler runs this as it is. It reads the attribute itself afterwards, under guards.
    @assume_constant_result
    def build(self, name: str) -> None:
        getattr(self, name)

    def check(self, name: str) -> None:
        """Refuses a propagation that was changed in place since it was built: its transposed would not be."""
        now = _versions(getattr(self, name))
        if now != self._versions[name]:
            raise ShapeError(
                "gcn: a matrix of the graph was changed in place, and its transposed was not. "
                "Make the graph anew, with other weights."
            )

    def to(self, device: torch.device | str) -> "Propagations":
        """The same on another device, with all that was built."""
        moved = Propagations(self.neighbours.to(device))
        for name, built in vars(self).items():
            if name in PROPAGATIONS:
                there, back = built
                on_device = there.to(device)
                setattr(moved, name, Propagation(on_device, on_device if back is there else back.to(device)))
                moved._versions[name] = _versions(getattr(moved, name))
            elif name == "neighbours_with_loops":
                setattr(moved, name, built.to(device))
            elif name == "digest":
                setattr(moved, name, built)
        return moved

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Copies count their changes from the beginning.
        vars(self).update(state)
        self._versions = {name: _versions(built) for name, built in state.items() if name in PROPAGATIONS}

    def _propagation(self, normalisation: str, self_loops: bool, dtype: torch.dtype) -> Propagation:
        heard = self.neighbours_with_loops if self_loops else self.neighbours
        there = Csr(heard.starts, heard.columns, normalise(heard, normalisation, dtype))
        back = transpose(there.starts, there.columns, heard.nodes).of(there.values)
        # In an undirected graph everybody is heard by whom he hears: the same numbers need no memory twice.
        if torch.equal(there.starts, back.starts) and torch.equal(there.columns, back.columns):
            back = there if torch.equal(there.values, back.values) else Csr(there.starts, there.columns, back.values)
        return Propagation(there, back)


def _versions(propagation: Propagation) -> tuple[int, ...]:
    there, back = propagation
    return versions(*there) if back is there else versions(*there, *back)


def _digest(neighbours: Neighbours) -> Tensor:
    digest = sha256()
    for part in neighbours:
        if part is None or part.is_meta:
            # Of a graph on meta only sizes are known.
            digest.update(repr(part).encode())
        else:
            numbers = part.double() if part.is_floating_point() else part
            digest.update(numbers.cpu().numpy().tobytes())
    return torch.tensor(list(digest.digest()), dtype=torch.uint8, device="cpu")

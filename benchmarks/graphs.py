"""How much faster does a graph convolution train than PyTorch Geometric's, and in how much memory?

    python benchmarks/graphs.py --data planetoid              200 epochs on Cora, all ways in turns, two threads
    python benchmarks/graphs.py --data planetoid --large      an epoch on a million nodes, each way a process of its own
    python benchmarks/graphs.py --data planetoid --device cuda

Peer: GCNConv with cached=True, in every form its users have: words sparse as ours reads them (a COO tensor, dropout on
its values) or dense, the graph as edges or as a CSR matrix, with dense words also under torch.compile. The fastest of
them counts. All are Kipf and Welling's net on Cora: 2 layers, 16 hidden, dropout 0.5, fused Adam at 0.01, weight decay
5e-4 on the first layer, the public split of 140 nodes to learn from and 1000 to test on. Times are of training alone;
each turn has a seed of its own. On a GPU every way is timed eagerly and captured in a CUDA graph.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch.nn.functional import dropout as torch_dropout

from kept import Kept, machine, result_of
from memory import peak_bytes
from porism.costing.predicting.clock import wait_for
from porism.layers import Graph, GraphConvolution
from porism.layers.dropout import dropout
from porism.layers.gcn import Propagated, SparseFeatures
from porism.tasks.graphs.data.planetoid import planetoid_files, read_planetoid
from turns import captured, spread, times_faster

MEASURES = ("layers/gcn", "layers/dropout.py")
HIDDEN, DROPOUT, RATE, DECAY = 16, 0.5, 0.01, 5e-4
TRAINED, TESTED = slice(0, 140), slice(-1000, None)
NODES, EDGES, WIDTH, CLASSES = 1_000_000, 10_000_000, 64, 16
"""The large graph; its hidden layer is as wide as its features."""
PACKAGES = ("torch-geometric", "pyg-lib", "torch-sparse", "torch-scatter")
"""Where the last three are there, PyTorch Geometric takes their kernels."""
WAYS = ("ours", "ours, first layer spread once", "peer by edges", "peer by CSR")

Step = Callable[[], Any]
Forget = Callable[[], None]


class Citations(NamedTuple):
    """Papers, the words in them (N, D), who cites whom (2, E), and their fields (N)."""

    words: Tensor
    edge_index: Tensor
    fields: Tensor


def cora(folder: Path) -> Citations:
    found = read_planetoid(planetoid_files(folder)["cora"], "cora")
    assert isinstance(found.features, SparseFeatures)
    assert isinstance(found.graph, Graph)
    words = found.features.row_normalised().to_dense()
    starts, sources, _ = found.graph.neighbors(add_self_loops=False)
    targets = torch.arange(len(words)).repeat_interleave(starts.diff())
    return Citations(words, torch.stack([sources.long(), targets]), found.labels)


class Ours(nn.Module):
    def __init__(self, width: int, hidden: int, classes: int, drop: float = 0.0) -> None:
        super().__init__()
        self.first, self.second = GraphConvolution(width, hidden), GraphConvolution(hidden, classes)
        self.drop = drop

    def forward(self, x: Tensor | SparseFeatures | Propagated, graph: Graph) -> Tensor:
        if isinstance(x, SparseFeatures):
            x = x.dropout(self.drop, self.training)
        h = relu(self.first(x, graph))
        scores: Tensor = self.second(dropout(h, 1 - self.drop) if self.training else h, graph)
        return scores


class Peer(nn.Module):
    def __init__(self, width: int, hidden: int, classes: int, drop: float = 0.0) -> None:
        from torch_geometric.nn import GCNConv

        super().__init__()
        self.first, self.second = GCNConv(width, hidden, cached=True), GCNConv(hidden, classes, cached=True)
        self.drop = drop

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        h = relu(self.first(self.dropped(x), edges))
        scores: Tensor = self.second(self.dropped(h), edges)
        return scores

    def dropped(self, x: Tensor) -> Tensor:
        """With dropout; of a sparse tensor on what it stores, since zeros stay zeros."""
        if not self.drop:
            return x
        if x.is_sparse:
            values = torch_dropout(x.values(), self.drop, self.training)
            return torch.sparse_coo_tensor(x.indices(), values, x.shape, is_coalesced=True, check_invariants=False)
        return torch_dropout(x, self.drop, self.training)


def optimizer_of(net: Ours | Peer) -> torch.optim.Optimizer:
    groups = [
        {"params": net.first.parameters(), "weight_decay": DECAY},
        {"params": net.second.parameters(), "weight_decay": 0.0},
    ]
    return torch.optim.Adam(groups, lr=RATE, fused=True, capturable=next(net.parameters()).is_cuda)


def training_step(net: Ours | Peer, inputs: tuple[Any, ...], fields: Tensor, trained: slice) -> tuple[Step, Forget]:
    """One epoch, and what brings net and optimizer back to where they started."""
    optimizer = optimizer_of(net)
    first_weights = [parameter.detach().clone() for parameter in net.parameters()]

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(net(*inputs)[trained], fields[trained]).backward()
        optimizer.step()

    @torch.no_grad()
    def forget() -> None:
        for parameter, weights in zip(net.parameters(), first_weights, strict=True):
            parameter.copy_(weights)
            for moment in optimizer.state[parameter].values():
                moment.zero_()

    return step, forget


def cora_inputs(way: str, papers: Citations) -> tuple[Any, ...]:
    """What the net of a way is called with."""
    nodes = len(papers.words)
    if way.startswith("ours"):
        return SparseFeatures.from_dense(papers.words), Graph(papers.edge_index, num_nodes=nodes)
    words = papers.words.to_sparse_coo().coalesce() if "sparse" in way else papers.words
    return words, _csr(papers.edge_index, nodes) if "CSR" in way else papers.edge_index


def _csr(edge_index: Tensor, nodes: int) -> Tensor:
    """The transposed adjacency, as PyTorch Geometric takes it: row i holds the nodes that i hears."""
    from torch_geometric.utils import to_torch_csr_tensor

    matrix: Tensor = to_torch_csr_tensor(edge_index.flip(0), size=(nodes, nodes))
    return matrix


def on_cora(way: str, papers: Citations, epochs: int, seed: int) -> dict[str, float]:
    """Seconds for all epochs, and the accuracy on the papers to test on. Building, compiling and capturing left out."""
    torch.manual_seed(seed)
    device, classes = papers.words.device, int(papers.fields.max()) + 1
    sizes = papers.words.shape[1], HIDDEN, classes, DROPOUT
    net: Ours | Peer = (Ours(*sizes) if way.startswith("ours") else Peer(*sizes)).to(device)
    inputs = cora_inputs(way, papers)
    net.eval()(*inputs)  # all build and keep what the graph is made of
    if "compiled" in way:
        torch._dynamo.reset()  # or the nets of earlier turns count as recompilations, of which only eight are made
        net.compile()
    step, forget = training_step(net.train(), inputs, papers.fields, TRAINED)
    for _ in range(2):
        step()
    if "captured" in way:
        step = captured(step)
    forget()
    wait_for(device)
    start = time.perf_counter()
    for _ in range(epochs):
        step()
    wait_for(device)
    seconds = time.perf_counter() - start
    with torch.no_grad():
        right = net.eval()(*inputs)[TESTED].argmax(1) == papers.fields[TESTED]
    return {"seconds": seconds, "accuracy": float(right.float().mean())}


def cora_ways(device: torch.device) -> list[str]:
    """Ours and every form of the peer; on a GPU each eagerly and captured."""
    ways = ["ours"]
    if find_spec("torch_geometric"):
        ways += [f"peer, {words} words, {edges}" for words in ("sparse", "dense") for edges in ("edges", "CSR")]
        ways += ["peer, dense words, edges, compiled"]
    return ways if device.type == "cpu" else [way + mode for mode in ("", ", captured") for way in ways]


def compare_on_cora(papers: Citations, epochs: int, turns: int) -> dict[str, Any]:
    """All ways in turns. A way that raises in the warm-up is left out, with the reason."""
    ways, refused = [], {}
    for way in cora_ways(papers.words.device):
        try:
            on_cora(way, papers, 3, seed=0)  # kernels are compiled, or read from where they are kept
            ways.append(way)
        except Exception as error:
            if way.startswith("ours"):
                raise
            refused[way] = f"{type(error).__name__}: {next(iter(str(error).splitlines()), '')}"[:200]
            if "captured" in way:
                # A capture that failed leaves the generator inside it. A copy of its state is outside.
                generator = torch.cuda.default_generators[papers.words.device.index or 0]
                generator.graphsafe_set_state(generator.clone_state())
    found: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    draw = random.Random(0)
    for turn in range(turns):
        for way in draw.sample(ways, len(ways)):
            found[way].append(on_cora(way, papers, epochs, seed=turn))
    seconds = {way: [row["seconds"] for row in rows] for way, rows in found.items()}
    result: dict[str, Any] = {
        way: {
            "seconds": spread(seconds[way]),
            "accuracy": round(statistics.mean(row["accuracy"] for row in rows), 4),
            "deviation": round(statistics.stdev(row["accuracy"] for row in rows), 4) if turns > 1 else None,
        }
        for way, rows in found.items()
    }
    compared = {}
    for mode in ("", ", captured"):
        own, peers = (
            "ours" + mode,
            [way for way in ways if way[:4] == "peer" and way.endswith(", captured") == bool(mode)],
        )
        if own in found and peers:
            best = min(peers, key=lambda way: result[way]["seconds"]["median"])
            compared[own] = {"best_peer": best, "times_faster": times_faster(seconds[own], seconds[best])}
    return {"epochs": epochs, "turns": turns, "ways": result, "refused": refused, "compared": compared}


def on_large_graph(way: str, nodes: int, edges: int, epochs: int, threads: int) -> dict[str, Any]:
    """Some epochs in a fresh process, whose peak of memory is its own."""
    script = f"import graphs; graphs.large_epochs({way!r}, {nodes}, {edges}, {epochs}, {threads})"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{way}: {done.stderr.decode()}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def large_epochs(way: str, nodes: int, edges: int, epochs: int, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    edge_index = torch.randint(nodes, (2, edges))
    x, fields = torch.randn(nodes, WIDTH), torch.randint(CLASSES, (nodes,))
    start = time.perf_counter()
    net, inputs = large_net(way, edge_index, x)
    del edge_index, x
    step, _ = training_step(net, inputs, fields, slice(None))
    step()  # builds and keeps what the graph is made of
    first = time.perf_counter() - start
    seconds = []
    for _ in range(epochs):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    print(json.dumps({"seconds": spread(seconds), "first_seconds": first, "peak_bytes": peak_bytes()}))


def large_net(way: str, edge_index: Tensor, x: Tensor) -> tuple[Ours | Peer, tuple[Any, ...]]:
    nodes = len(x)
    if way.startswith("ours"):
        graph = Graph(edge_index, num_nodes=nodes)
        return Ours(WIDTH, WIDTH, CLASSES), (x if way == "ours" else Propagated.of(x, graph), graph)
    return Peer(WIDTH, WIDTH, CLASSES), (x, _csr(edge_index, nodes) if way == "peer by CSR" else edge_index)


def main(
    data: Path,
    epochs: int = 200,
    turns: int = 7,
    threads: int = 2,
    device: str = "cpu",
    large: bool = False,
    nodes: int = NODES,
    edges: int = EDGES,
    large_epochs: int = 5,
    resume: bool = False,
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    data: the folder with Planetoid's files, ind.cora.x and its sisters.
    turns: how often each way trains on Cora, each time with another seed.
    large: measure an epoch on a large random graph instead, on the CPU, one way after the other (memory for one only).
    resume: keep the parts that the result has, and measure the others.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    place = torch.device(device)
    settings = {"device": device, "threads": threads, "hidden": HIDDEN, "optimizer": "Adam, fused"}
    kept = Kept(out or result_of("graphs", device), machine(place, PACKAGES), settings, resume, MEASURES)
    if large:
        sizes = {"N": nodes, "E": edges, "D": WIDTH, "H": WIDTH, "classes": CLASSES, "epochs": large_epochs}
        kept.part("large sizes", lambda: sizes)
        for way in WAYS:
            kept.part(f"large: {way}", partial(on_large_graph, way, nodes, edges, large_epochs, threads))
    else:
        papers = Citations(*(part.to(place) for part in cora(data)))
        kept.part("cora", lambda: compare_on_cora(papers, epochs, turns))


if __name__ == "__main__":
    tyro.cli(main)

"""How much faster does a graph convolution train than PyTorch Geometric's, and in how much memory?

    python benchmarks/graphs.py --data planetoid          200 epochs on Cora, ours and the peer in turns, two threads
    python benchmarks/graphs.py --data planetoid --large  and an epoch on a million nodes, each way a process of its own
    python benchmarks/graphs.py --data planetoid --device cuda

Peer: GCNConv with cached=True; on Cora with dense features, on the large graph by edges and by torch's CSR, whichever
is faster. On Cora both are Kipf and Welling's net: 2 layers, 16 hidden, dropout 0.5, Adam at 0.01, weight decay 5e-4 on
the first layer, the public split of 140 nodes to learn from and 1000 to test on. Times are of training alone,
accuracies are means over the turns, each with a seed of its own. On a GPU our epoch is captured once and replayed.
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import torch
import tyro
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu
from torch.nn.functional import dropout as torch_dropout

from memory import peak_bytes
from porism.costing.predicting.clock import wait_for
from porism.layers import Graph, GraphConvolution
from porism.layers.dropout import dropout
from porism.layers.gcn import Propagated, SparseFeatures
from porism.tasks.graphs.data.planetoid import planetoid_files, read_planetoid
from porism.training.device import hardware, versions

RESULT = Path(__file__).parent / "results" / "graphs.json"
HIDDEN, DROPOUT, RATE, DECAY = 16, 0.5, 0.01, 5e-4
TRAINED, TESTED = slice(0, 140), slice(-1000, None)
NODES, EDGES, WIDTH, CLASSES = 1_000_000, 10_000_000, 64, 16
"""The large graph; its hidden layer is as wide as its features."""
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
        h = relu(self.first(torch_dropout(x, self.drop, self.training) if self.drop else x, edges))
        scores: Tensor = self.second(torch_dropout(h, self.drop, self.training) if self.drop else h, edges)
        return scores


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


def captured(step: Step) -> Step:
    """The step as a CUDA graph."""
    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def on_cora(way: str, papers: Citations, epochs: int, seed: int) -> dict[str, float]:
    """Seconds for all epochs, and the accuracy on the papers to test on. Building the net and the graph is left out."""
    torch.manual_seed(seed)
    device, classes = papers.words.device, int(papers.fields.max()) + 1
    sizes = papers.words.shape[1], HIDDEN, classes, DROPOUT
    net: Ours | Peer
    inputs: tuple[Any, ...]
    if way == "ours":
        net = Ours(*sizes).to(device)
        graph = Graph(papers.edge_index, num_nodes=len(papers.words))
        inputs = SparseFeatures.from_dense(papers.words), graph
    else:
        net = Peer(*sizes).to(device)
        inputs = papers.words, papers.edge_index
    net.eval()(*inputs)  # both build and keep what the graph is made of
    step, forget = training_step(net.train(), inputs, papers.fields, TRAINED)
    if isinstance(net, Ours) and device.type == "cuda":
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


def compare_on_cora(papers: Citations, epochs: int, turns: int) -> dict[str, Any]:
    ways = ["ours", "peer"] if find_spec("torch_geometric") else ["ours"]
    rows: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
    for way in rows:  # kernels are compiled, or read from where they are kept
        on_cora(way, papers, 3, seed=0)
    for turn in range(turns):
        for way, found in rows.items():
            found.append(on_cora(way, papers, epochs, seed=turn))
    result: dict[str, Any] = {
        way: {
            "seconds": round(statistics.median(row["seconds"] for row in found), 4),
            "accuracy": round(statistics.mean(row["accuracy"] for row in found), 4),
            "deviation": round(statistics.pstdev(row["accuracy"] for row in found), 4),
        }
        for way, found in rows.items()
    }
    if "peer" in result:
        result["times_faster"] = round(result["peer"]["seconds"] / result["ours"]["seconds"], 1)
    return {"epochs": epochs, "turns": turns, **result}


def on_large_graph(way: str, nodes: int, edges: int, epochs: int, threads: int) -> dict[str, float]:
    """The fastest of some epochs, in a fresh process."""
    script = f"import graphs; graphs.large_epochs({way!r}, {nodes}, {edges}, {epochs}, {threads})"
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parent, capture_output=True, check=False)
    if done.returncode:
        sys.exit(f"{way}: {done.stderr.decode()}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
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
    print(json.dumps({"seconds": min(seconds), "first_seconds": first, "peak_bytes": peak_bytes()}))


def large_net(way: str, edge_index: Tensor, x: Tensor) -> tuple[Ours | Peer, tuple[Any, ...]]:
    nodes = len(x)
    if way.startswith("ours"):
        graph = Graph(edge_index, num_nodes=nodes)
        return Ours(WIDTH, WIDTH, CLASSES), (x if way == "ours" else Propagated.of(x, graph), graph)
    if way == "peer by CSR":
        from torch_geometric.utils import to_torch_csr_tensor

        # It takes the transposed adjacency: row i holds whom i sources.
        return Peer(WIDTH, WIDTH, CLASSES), (x, to_torch_csr_tensor(edge_index.flip(0), size=(nodes, nodes)))
    return Peer(WIDTH, WIDTH, CLASSES), (x, edge_index)


def compare_on_large_graph(nodes: int, edges: int, epochs: int, threads: int) -> dict[str, Any]:
    rows = {}
    for way in WAYS:
        rows[way] = on_large_graph(way, nodes, edges, epochs, threads)
        print(json.dumps({way: rows[way]}), flush=True)
    peer = min((rows[way] for way in WAYS if way.startswith("peer")), key=lambda row: row["seconds"])
    least = min(rows[way]["peak_bytes"] for way in WAYS if way.startswith("peer"))
    compared = {
        way: {
            "times_faster": round(peer["seconds"] / rows[way]["seconds"], 2),
            "memory_of_fastest_peer": round(rows[way]["peak_bytes"] / peer["peak_bytes"], 3),
            "memory_of_smallest_peer": round(rows[way]["peak_bytes"] / least, 3),
        }
        for way in WAYS
        if way.startswith("ours")
    }
    sizes = {"N": nodes, "E": edges, "D": WIDTH, "H": WIDTH, "classes": CLASSES, "epochs": epochs}
    return {"sizes": sizes, "ways": rows, "compared": compared}


def main(
    data: Path,
    epochs: int = 200,
    turns: int = 5,
    threads: int = 2,
    device: str = "cpu",
    large: bool = False,
    nodes: int = NODES,
    edges: int = EDGES,
    large_epochs: int = 3,
    out: Path | None = None,
) -> None:
    """Measure, print and keep.

    data: the folder with Planetoid's files, ind.cora.x and its sisters.
    turns: how often each way trains on Cora, each time with another seed.
    large: measure an epoch on a large random graph too, on the CPU.
    out: where to keep the result as JSON, instead of benchmarks/results.
    """
    torch.set_num_threads(threads)
    place = torch.device(device)
    papers = Citations(*(part.to(place) for part in cora(data)))
    result: dict[str, Any] = {"hardware": hardware(place), "versions": versions(), "device": device, "threads": threads}
    result["cora"] = compare_on_cora(papers, epochs, turns)
    print(json.dumps(result["cora"]), flush=True)
    if large:
        result["large"] = compare_on_large_graph(nodes, edges, large_epochs, threads)
        print(json.dumps(result["large"]["compared"]))
    (out or RESULT).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    tyro.cli(main)

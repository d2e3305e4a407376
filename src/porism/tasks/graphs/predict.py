"""Labels for nodes: of a graph that the model has never seen, or of the one it was trained on."""

from collections import Counter

from torch import Tensor

from porism.errors import DataError
from porism.tasks.graphs.data.labelled_graph import UNKNOWN, LabelledGraph
from porism.training.task import Sample

SHOWN = 8
"""Nodes that the text names; all are among the details."""


def label_graph(prompt: str, logits: Tensor, data: LabelledGraph, classes: tuple[str, ...]) -> Sample:
    """What every node of a graph is taken for. logits (N, V)."""
    chances, said = logits.softmax(1).max(1)
    names = [classes[number] for number in said.tolist()]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())
    nodes = "; ".join(f"node {node}: {name}" for node, name in enumerate(names[:SHOWN]))
    more = f"; and {len(names) - SHOWN} more, all of them with --json" if len(names) > SHOWN else ""
    details = {"labels": names, "probabilities": [round(chance, 6) for chance in chances.tolist()]}
    return Sample(prompt, f"-> {len(names)} nodes: {counts}", (nodes + more, *_score(said, data, classes)), details)


def label_node(prompt: str, node: int, logits: Tensor, data: LabelledGraph) -> Sample:
    """What one node of the training graph is taken for, and what it is."""
    if not 0 <= node < len(logits):
        raise DataError(f"{data.name} has no node {node}. Its nodes are numbered 0 to {len(logits) - 1}.")
    chances = logits[node].softmax(0)
    said = int(chances.argmax())
    label = int(data.labels[node])
    split = next((split for split, members in data.splits.items() if node in members), "")
    known = () if label == UNKNOWN else (f"it is {data.classes[label]}" + (f", of the {split} split" if split else ""),)
    details = {name: round(float(chance), 6) for name, chance in zip(data.classes, chances, strict=True)}
    return Sample(prompt, f"-> {data.classes[said]} ({float(chances[said]):.1%})", known, {"probabilities": details})


def _score(said: Tensor, data: LabelledGraph, classes: tuple[str, ...]) -> tuple[str, ...]:
    """How many are right, where the graph has labels of the same names."""
    known = data.labels != UNKNOWN
    if not known.any() or any(name not in classes for name in data.classes):
        return ()
    wanted = data.labels[known].new_tensor([classes.index(name) for name in data.classes])[data.labels[known]]
    return (f"{float((said.cpu()[known] == wanted).double().mean()):.1%} right of {int(known.sum())} with a label",)

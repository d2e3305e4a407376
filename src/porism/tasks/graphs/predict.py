"""Predicted labels of nodes: of a new graph, or of the one the model was trained on."""

from collections import Counter
from difflib import get_close_matches

from torch import Tensor

from porism.errors import DataError, shown
from porism.tasks.graphs.data.labelled_graph import UNKNOWN, LabelledGraph
from porism.training.task import Prediction

SHOWN = 8
"""Nodes in the text; all are in the details."""
MOST_COMPARED, LONGEST_NAME = 2000, 100
"""Limits of the search for a name similar to an unknown one."""


def find_node(text: str, data: LabelledGraph) -> int | None:
    """The node that a text names: by its name, or by its number where no name is one; None where it may be a file."""
    if text in data.names:
        return data.names.index(text)
    is_number = text.isascii() and text.removeprefix("-").isdigit()
    if is_number and not any(name.isdigit() for name in data.names):
        return int(text)
    if not data.names:
        return None
    close = get_close_matches(text[:LONGEST_NAME], data.names, n=1) if len(data.names) <= MOST_COMPARED else []
    advice = f"Did you mean {shown(close[0])}?" if close else f"Its first is {shown(data.names[0])}."
    raise DataError(f"{data.name} has no node {shown(text)}, and there is no such file. {advice}")


def label_graph(prompt: str, logits: Tensor, data: LabelledGraph, classes: tuple[str, ...]) -> Prediction:
    """The predicted class of every node of a graph. logits (N, V)."""
    probs, predicted = logits.softmax(1).max(1)
    names = [classes[number] for number in predicted.tolist()]
    counts = ", ".join(f"{count} {name}" for name, count in Counter(names).most_common())
    called = data.names or [f"node {node}" for node in range(len(names))]
    nodes = "; ".join(f"{node}: {name}" for node, name in zip(called, names[:SHOWN], strict=False))
    more = f"; and {len(names) - SHOWN} more, all of them in the details (--json)" if len(names) > SHOWN else ""
    details = {
        **({"nodes": list(data.names)} if data.names else {}),
        "labels": names,
        "probabilities": [round(prob, 6) for prob in probs.tolist()],
    }
    return Prediction(
        prompt, f"-> {len(names)} nodes: {counts}", (nodes + more, *_score(predicted, data, classes)), details
    )


def label_node(prompt: str, node: int, logits: Tensor, data: LabelledGraph) -> Prediction:
    """The predicted class of one node of the training graph, and its label."""
    if not 0 <= node < len(logits):
        raise DataError(f"{data.name} has no node {node}. Its nodes are numbered 0 to {len(logits) - 1}.")
    probs = logits[node].softmax(0)
    predicted = int(probs.argmax())
    label = int(data.labels[node])
    split = next((split for split, members in data.splits.items() if node in members), "")
    known = () if label == UNKNOWN else (f"it is {data.classes[label]}" + (f", of the {split} split" if split else ""),)
    details = {name: round(float(prob), 6) for name, prob in zip(data.classes, probs, strict=True)}
    return Prediction(
        prompt, f"-> {data.classes[predicted]} ({float(probs[predicted]):.1%})", known, {"probabilities": details}
    )


def _score(predicted: Tensor, data: LabelledGraph, classes: tuple[str, ...]) -> tuple[str, ...]:
    """The accuracy, where the graph has labels of the same names."""
    known = data.labels != UNKNOWN
    if not known.any() or any(name not in classes for name in data.classes):
        return ()
    labels = data.labels[known].new_tensor([classes.index(name) for name in data.classes])[data.labels[known]]
    return (
        f"{float((predicted.cpu()[known] == labels).double().mean()):.1%} right of {int(known.sum())} with a label",
    )

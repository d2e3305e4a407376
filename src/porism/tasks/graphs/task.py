"""The graphs task: semi-supervised classification of nodes."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.subject import CostSubject
from porism.errors import DataError, RecipeError
from porism.layers.gcn import Graph, Propagated, SparseFeatures
from porism.runs.exhibits import AnyExhibit
from porism.runs.recipe import Recipe
from porism.runs.run import IN_MEMORY
from porism.runs.tuning import Space
from porism.tasks.blocks.classification import accuracy_and_cross_entropy
from porism.tasks.graphs.baselines import baseline_accuracies, baseline_notes
from porism.tasks.graphs.catalogue import CATALOGUE
from porism.tasks.graphs.data import (
    LabelledGraph,
    check_weights,
    from_object,
    load_graph,
    read_graph,
    ready,
)
from porism.tasks.graphs.data.columns import FeatureColumn
from porism.tasks.graphs.data.features import FeatureScale, scale_of, with_features
from porism.tasks.graphs.data.labelled_graph import Features, row_normalised
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import AnyGraph, MappedGraph
from porism.tasks.graphs.data.sampling import NeighborBatch, NeighborBatches, NeighborSampling
from porism.tasks.graphs.exhibits.hidden_layer import hidden_map
from porism.tasks.graphs.exhibits.over_smoothing import smoothing
from porism.tasks.graphs.metric import by_class, confusion_matrix
from porism.tasks.graphs.model.base import GraphModel, consistency_loss, state_of_0_1
from porism.tasks.graphs.model.build import build
from porism.tasks.graphs.model.cost import subject, subject_on_dense
from porism.tasks.graphs.model.own import OwnGraphModel, edges_of
from porism.tasks.graphs.predict import find_node, label_graph, label_node
from porism.tasks.graphs.recipes import DEFAULT, EXPERIMENTS, PUBLISHED, RECIPES, GraphRecipe
from porism.tasks.graphs.tuning import SPACE
from porism.training.experiment import Experiment
from porism.training.own_model import DataInfo
from porism.training.task import Batch, Carry, OwnInputs, Prediction, Task


class Graphs(Task):
    """Semi-supervised classification of the nodes of one graph.

    >>> task = Graphs.load(RECIPES["gcn"], None)      # the karate club
    >>> model = task.build()
    """

    name: ClassVar[str] = "graphs"
    unit: ClassVar[str] = "examples"
    metric = "accuracy"
    lower_is_better = False
    recipes: ClassVar[Mapping[str, Recipe]] = RECIPES
    default_recipe: ClassVar[str] = DEFAULT
    tunable: ClassVar[Space] = SPACE
    fields_beside_model = (
        *("num_augmentations", "consistency_weight", "sharpening_temperature", "normalize_features"),
        *("check_val_every_n_epoch", "max_memory_mib", "split", "split_seed"),
    )
    experiments: ClassVar[Mapping[str, Experiment]] = EXPERIMENTS

    def __init__(self, recipe: GraphRecipe, assets: Mapping[str, Any], data: LabelledGraph | None = None) -> None:
        self.recipe: GraphRecipe = recipe
        self.classes: tuple[str, ...] = tuple(assets["classes"])
        self.width: int = assets["width"]
        self._assets = dict(assets)
        self._scale = FeatureScale.from_json(assets["scale"]) if "scale" in assets else None
        self._data = data
        self._inputs: dict[torch.device, tuple[Features | Propagated, AnyGraph]] = {}

    @classmethod
    def load(cls, recipe: Recipe, source: str | None) -> Self:
        own = _own(recipe)
        return cls._of(own, load_graph(source, own.split, own.split_seed, _most_mib(own)), source)

    @classmethod
    def from_data(cls, recipe: Recipe, data: Any) -> Self:
        own = _own(recipe)
        return cls._of(own, ready(from_object(data, name="data"), own.split, own.split_seed), IN_MEMORY)

    @classmethod
    def _of(cls, own: GraphRecipe, data: LabelledGraph, source: str | None) -> Self:
        data = with_features(data, own.features)
        check_weights(data, own.normalization)
        scale = scale_of(data, own.features)
        assets = {
            "classes": list(data.classes),
            "width": data.features.shape[1],
            "source": source,
            "fingerprint": data.fingerprint(),
            **({"one_hot": True} if own.features == "one-hot" or (data.names and not data.columns) else {}),
            **({"columns": [list(column) for column in data.columns]} if data.columns else {}),
            **({"scale": scale.to_json()} if scale else {}),
        }
        return cls(own, assets, data)

    @classmethod
    def restore(cls, recipe: Recipe, assets: Mapping[str, Any]) -> Self:
        return cls(_own(recipe), assets)

    @property
    def data(self) -> LabelledGraph:
        """The graph that was trained on. A restored task reads it again from where it was."""
        if self._data is None:
            source = self._assets["source"]
            if source == IN_MEMORY:
                raise DataError(
                    "the graph of this run was given in Python. Give it again: porism.train('graphs', data=..., "
                    "out=..., resume=True)"
                )
            data = load_graph(source, self.recipe.split, self.recipe.split_seed, _most_mib(self.recipe))
            data = with_features(data, self.recipe.features)
            if data.fingerprint() != self._assets["fingerprint"]:
                raise DataError(f"{source}: no longer the graph of the training. Restore it.")
            self._data = data
        return self._data

    def assets(self) -> dict[str, Any]:
        return self._assets

    def fingerprint(self) -> str:
        return str(self._assets["fingerprint"])

    def example_ids(self, split: str) -> Sequence[Hashable]:
        members: list[int] = self.data.splits[split].tolist()
        return members

    def build(self) -> GraphModel:
        return build(self.recipe, self.width, len(self.classes))

    @classmethod
    def for_own_model(cls, recipe: Recipe) -> Recipe:
        # What is of the layers of our models: a module of the user's has its own.
        return replace(_own(recipe), first_layer_weight_decay=0.0, num_neighbors=None)

    def data_info(self) -> DataInfo:
        return DataInfo(num_classes=len(self.classes), num_features=self.width)

    def adapt(self, module: nn.Module) -> nn.Module:
        return OwnGraphModel(module, len(self.classes))

    def own_module(self, model: nn.Module) -> nn.Module:
        return model.module if isinstance(model, OwnGraphModel) else model

    def own_inputs(self) -> OwnInputs:
        x, graph = self._features(), self.data.graph
        assert isinstance(graph, Graph)  # for_own_model samples no neighbours
        dense = x.to_dense() if isinstance(x, SparseFeatures) else x
        return OwnInputs((dense, *edges_of(graph)), {}, graph.num_nodes)

    def batches(self, epoch: int, seed: int) -> Sequence[Batch]:
        recipe, nodes = self.recipe, self.data.splits["train"]
        if not recipe.num_neighbors:
            return [(nodes, self.data.labels[nodes])] * recipe.epochs_between_validations
        sampling = NeighborSampling(
            passes=recipe.epochs_between_validations,
            batch_size=recipe.batch_size,
            num_layers=recipe.num_layers,
            num_neighbors=recipe.num_neighbors,
            seed=(seed << 32) + (epoch << 20),
        )
        propagation = self.data.graph.propagation(recipe.normalization, recipe.add_self_loops)
        return NeighborBatches(propagation, self._features(), self.data.labels, nodes, sampling)

    def start(self, model: nn.Module) -> Carry:
        return {}

    def loss(self, model: nn.Module, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        net, recipe = _own_model(model), self.recipe
        inputs: tuple[Features | Propagated, AnyGraph]
        if recipe.num_neighbors:
            sampled = NeighborBatch.of(batch)
            labels, nodes = sampled.labels, torch.arange(len(sampled.labels), device=sampled.labels.device)
            inputs = sampled.x(self.width), sampled.graph()
        else:
            nodes, labels = batch
            inputs = self._inputs_on(net)
        copies = net.copies(*inputs, recipe.num_augmentations)
        losses = torch.stack([functional.cross_entropy(logits[nodes], labels) for logits in copies])
        loss = losses.mean() + recipe.first_layer_weight_decay * net.penalty()
        if recipe.consistency_weight:
            loss = loss + recipe.consistency_weight * consistency_loss(copies, recipe.sharpening_temperature)
        return loss, carry

    def example_dim(self) -> int:
        recipe = self.recipe
        if not recipe.num_neighbors or recipe.consistency_weight:
            raise RecipeError(
                f"graphs trains recipe {recipe.name} in one process: its step needs the whole graph. Leave torchrun "
                "out, or take a few neighbours of a few nodes at a time: num_neighbors=10, consistency_weight=0."
            )
        return 0  # labels (B,) of the training nodes; `part` takes the rest along

    def part(self, batch: Batch, rank: int, size: int) -> Batch:
        return NeighborBatch.of(batch).part(rank, size, self.recipe.num_layers, self.width).batch()

    def loss_weight(self, batch: Batch) -> float:
        return len(batch[0])

    def optimizer_state(self, state: dict[str, Tensor], model: Mapping[str, Tensor]) -> dict[str, Tensor]:
        return state_of_0_1(state) if "layers.0.weight" in model else state

    def count(self, batch: Batch) -> int:
        # Every node that goes through the net, labelled or not.
        return len(NeighborBatch.of(batch).there_starts) - 1 if self.recipe.num_neighbors else self.data.graph.num_nodes

    def training_metrics(self, loss: float) -> dict[str, float]:
        return {"loss": loss}

    def evaluate(self, model: nn.Module, split: str) -> dict[str, float]:
        members = self.data.splits[split]
        return accuracy_and_cross_entropy(self._logits(model)[members], self.data.labels[members])

    def predict(self, model: nn.Module, inputs: Sequence[str], options: Mapping[str, Any]) -> list[Prediction]:
        if options:
            raise RecipeError(f"labelling nodes has no option {next(iter(options))!r}. It takes none.")
        return [self._labelled(model, text) for text in inputs]

    def show(self, model: nn.Module) -> list[Prediction]:
        some, logits = self.data.splits["test"][:4].tolist(), self._logits(model)
        return [label_node(f"node {node}", node, logits, self.data) for node in some]

    def exhibits(self, model: nn.Module) -> list[AnyExhibit]:
        net = _own_model(model)
        states = net.states(*self._inputs_on(net))
        test = self.data.splits["test"]
        matrix = confusion_matrix(states[-1].argmax(1).cpu()[test], self.data.labels[test], self.classes)
        hidden = states[max(0, len(states) - 2)]
        # Over-smoothing propagates all features many times.
        smoothed = [] if self._is_mapped() else smoothing(self.data)
        return [by_class(matrix), matrix, hidden_map(hidden, self.data), *smoothed]

    def outcomes(self, model: nn.Module, split: str) -> list[bool]:
        members = self.data.splits[split]
        right: list[bool] = (self._logits(model)[members].argmax(1) == self.data.labels[members]).tolist()
        return right

    def notes(self) -> Sequence[str]:
        x, graph, most = self.data.features, self.data.graph, f"max_memory_mib={self.recipe.max_memory_mib}"
        notes = list(super().notes())
        if isinstance(x, MappedFeatures):
            notes.append(f"features would take {x.mebibytes:,} MiB, more than {most}: they stay in {x.path}")
        if isinstance(graph, MappedGraph):
            notes.append(f"{graph.num_edges:,} edges would take more than {most}: they stay in {graph.path}")
        if self._is_mapped():
            notes.append("the report is without over-smoothing, which propagates all features many times")
        return notes

    def facts(self) -> dict[str, int | float | str]:
        data = self.data
        sizes: dict[str, int | float | str] = {
            "nodes": data.graph.num_nodes,
            "edges": data.graph.num_edges,
            "split": data.sizes(),
        }
        return {**sizes, "features": self._features_told(), **data.facts}

    def cost_subject(self) -> CostSubject:
        return subject(self.recipe) if self._is_sparse() else subject_on_dense(self.recipe, self.letters())

    def letters(self) -> dict[str, int]:
        graph, x = self.data.graph, self.data.features
        sizes = {
            "N": graph.num_nodes,
            "E": _entries(graph, self.recipe.add_self_loops),
            "D": self.width,
            "H": self.recipe.hidden_size,
        }
        stored = {"M": x.there.stored} if isinstance(x, SparseFeatures) else {}
        return {**sizes, "V": len(self.classes), "K": self.recipe.power_iterations, **stored}

    def units(self) -> int:
        return self.data.graph.num_nodes

    def cost_notes(self) -> Sequence[str]:
        if self.recipe.num_neighbors:
            return [
                "Counted is a pass over the whole graph. Steps on sampled neighbours compute another amount, "
                "so the FLOPs a second are not theirs."
            ]
        if (runs := self.recipe.num_augmentations) > 1:
            return [
                f"Counted is one run of the net. A step makes {runs} of them (num_augmentations), "
                f"and {runs} times as many FLOPs a second as shown."
            ]
        return []

    @classmethod
    def subject(cls, recipe: Recipe) -> CostSubject:
        return subject(_own(recipe))

    def published(self) -> dict[str, dict[str, float]]:
        known = self.recipe.name == "kipf" and self.data.split_name == "public" and self.data.name in PUBLISHED
        return {"test": {"accuracy": PUBLISHED[self.data.name]}} if known else {}

    def baselines(self) -> dict[str, dict[str, dict[str, float]]]:
        return {
            name: {split: {"accuracy": share} for split, share in splits.items()}
            for name, splits in baseline_accuracies(self.data).items()
        }

    def baseline_notes(self) -> Sequence[str]:
        return baseline_notes(self.data)

    def limit(self) -> dict[str, dict[str, float]]:
        return {split: {"accuracy": share} for split, share in self.data.limits.items()}

    def _features_told(self) -> str:
        if self._scale is not None:
            return f"{self.width}, {'standardised' if self._scale.mean is not None else 'scaled by their deviation'}"
        return f"{self.width}, {'row-normalised' if self.recipe.normalize_features else 'as given'}"

    def _is_sparse(self) -> bool:
        return isinstance(self.data.features, SparseFeatures)

    def _is_mapped(self) -> bool:
        """Whether features or edges stay in their file."""
        return isinstance(self.data.features, MappedFeatures) or isinstance(self.data.graph, MappedGraph)

    def _features(self, data: LabelledGraph | None = None) -> Features:
        x = (data or self.data).features
        if self._scale is not None:
            return self._scale(x)
        return row_normalised(x) if self.recipe.normalize_features else x

    def _inputs_on(self, net: GraphModel | OwnGraphModel) -> tuple[Features | Propagated, AnyGraph]:
        """The inputs of the net on its device, moved there once."""
        device = _device(net)
        if device not in self._inputs:
            # They outlive an evaluation, and a backward pass must be able to save them.
            with torch.inference_mode(False), torch.no_grad():
                self._inputs[device] = self._prepared(self.data, net)
        return self._inputs[device]

    def _prepared(self, data: LabelledGraph, net: GraphModel | OwnGraphModel) -> tuple[Features | Propagated, AnyGraph]:
        graph = data.graph.to(_device(net))
        return net.prepare(self._features(data).to(_device(net)), graph), graph

    @torch.no_grad()
    def _logits(self, model: nn.Module, data: LabelledGraph | None = None) -> Tensor:
        net = _own_model(model)
        logits: Tensor = net(*(self._inputs_on(net) if data is None else self._prepared(data, net)))
        return logits.cpu()

    def label_own_node(self, model: nn.Module, text: str) -> Prediction | None:
        """The predicted class of a node of the training graph, by its name or number; None where a text is neither."""
        node = find_node(text, self.data)
        return None if node is None else label_node(text, node, self._logits(model), self.data)

    def _labelled(self, model: nn.Module, text: str) -> Prediction:
        # What is neither a file nor a graph's name is a node of the training graph, or nothing.
        known = Path(text).exists() or text in CATALOGUE
        if not known and (found := self.label_own_node(model, text)) is not None:
            return found
        if self._assets.get("one_hot"):
            raise DataError(f"{text}: the model has one-hot nodes, so it knows those of its training graph alone.")
        columns = [FeatureColumn(name, kinds and tuple(kinds)) for name, kinds in self._assets.get("columns", ())]
        data = read_graph(text, columns or None, _most_mib(self.recipe))
        if data.features.shape[1] != self.width:
            raise DataError(
                f"{text}: nodes have {data.features.shape[1]} features, and the model was trained on {self.width}. "
                "Give a graph with the same features in the same order."
            )
        check_weights(data, self.recipe.normalization)
        return label_graph(text, self._logits(model, data), data, self.classes)


def _own(recipe: Recipe) -> GraphRecipe:
    assert isinstance(recipe, GraphRecipe)
    return recipe


def _most_mib(recipe: GraphRecipe) -> int | None:
    """What features and edges may take. A step over the whole graph has all of them in memory."""
    return recipe.max_memory_mib if recipe.num_neighbors else None


def _entries(graph: AnyGraph, add_self_loops: bool) -> int:
    """Stored entries of A + I, or of A."""
    if isinstance(graph, MappedGraph):
        return graph.num_entries(add_self_loops)
    return len(graph.neighbors(add_self_loops).columns)


def _own_model(model: nn.Module) -> GraphModel | OwnGraphModel:
    assert isinstance(model, GraphModel | OwnGraphModel)
    return model


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device

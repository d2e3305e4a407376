"""The base class of models that classify nodes, and the consistency loss between their dropout copies."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from porism.layers.dropout import dropout
from porism.layers.gcn import GraphConvolution, Propagated, SparseFeatures
from porism.tasks.graphs.data.labelled_graph import Features
from porism.tasks.graphs.data.mapped import MappedFeatures
from porism.tasks.graphs.data.mapped_graph import AnyGraph
from porism.tasks.graphs.recipes import GraphRecipe


class GraphModel(nn.Module):
    """From the features of nodes to the logits of their classes.

    Shapes: x (N, D) -> logits (N, V).
    """

    def __init__(self, recipe: GraphRecipe, width: int, classes: int) -> None:
        super().__init__()
        self.recipe = recipe
        widths = [width, *[recipe.hidden_size] * (recipe.num_layers - 1), classes]
        self.layers = nn.ModuleList(
            GraphConvolution(
                in_width, out_width, normalization=recipe.normalization, add_self_loops=recipe.add_self_loops
            )
            for in_width, out_width in pairwise(widths)
        )

    def forward(self, x: Features | Propagated, graph: AnyGraph) -> Tensor:
        return self.states(x, graph)[-1]

    @abstractmethod
    def states(self, x: Features | Propagated, graph: AnyGraph) -> list[Tensor]:
        """The output of every layer: (N, H) each, the last one the logits (N, V)."""

    def copies(self, x: Features | Propagated, graph: AnyGraph, count: int) -> Sequence[Tensor]:
        """The logits of several forward passes, each with its own dropout."""
        return [self(x, graph) for _ in range(count)]

    def prepare(self, x: Features, graph: AnyGraph) -> Features | Propagated:
        """Features as every step takes them, computed once."""
        return x

    def penalty(self) -> Tensor:
        """Half of the sum of the first layer's squared weights."""
        return self.convolution(0).lin.weight.square().sum() / 2

    def convolution(self, index: int) -> GraphConvolution:
        layer = self.layers[index]
        assert isinstance(layer, GraphConvolution)
        return layer

    def drop(self, h: Tensor) -> Tensor:
        return dropout(h, 1 - self.recipe.dropout) if self.training else h

    def drop_features(self, x: Features) -> Features:
        keep = 1 - self.recipe.input_dropout
        if not self.training or keep == 1:
            return x
        assert not isinstance(x, MappedFeatures)  # of which a step reads rows
        # A dropped 0 is still 0: sparse features stay sparse.
        return x.dropout(1 - keep) if isinstance(x, SparseFeatures) else dropout(x, keep)


def consistency_loss(copies: Sequence[Tensor], temperature: float) -> Tensor:
    """The mean squared distance of each copy's probabilities from the sharpened mean. Each copy (N, V), logits.

    >>> consistency_loss([torch.tensor([[9.0, 0.0]]), torch.tensor([[9.0, 0.0]])], temperature=0.5) < 1e-6
    tensor(True)

    The mean is a fixed target, without a gradient. Feng et al., Graph Random Neural Networks, 2020.
    """
    probs = torch.stack([logits.softmax(1) for logits in copies])  # copies N V
    sharpened = probs.detach().mean(0).pow(1 / temperature)
    target = sharpened / sharpened.sum(1, keepdim=True)
    return (probs - target).square().sum(2).mean()


def state_of_0_1(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The state of an optimizer that 0.1 saved, `{index of a parameter}.{name}`, for the parameters of today.

    >>> state_of_0_1({"0.exp_avg": torch.zeros(5, 3), "1.exp_avg": torch.zeros(3)})["1.exp_avg"].shape
    torch.Size([3, 5])

    In 0.1 a layer had its weight (D, H), then its bias; today it has its bias, then its weight (H, D).
    """
    found: dict[str, Tensor] = {}
    for name, value in state.items():
        index, _, kind = name.partition(".")
        layer, is_bias = divmod(int(index), 2)
        found[f"{2 * layer + (not is_bias)}.{kind}"] = value.mT.contiguous() if value.dim() == 2 else value
    return found

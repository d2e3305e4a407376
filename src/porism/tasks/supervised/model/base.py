"""A net of linear layers, and what it costs: D features, H hidden units, V outputs."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from porism.costing.alphabet import B, D, H, V
from porism.costing.terms import Terms
from porism.tasks.supervised.recipes import SupervisedRecipe

NONLINEARITIES = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU}


class Standardize(nn.Module):
    """(x - mean) / deviation of each feature; both come from train, are kept with the model and not learned.

    >>> scaled = Standardize(1).fit(torch.tensor([1.0]), torch.tensor([2.0]))(torch.tensor([[5.0]]))
    >>> scaled
    tensor([[2.]])
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, num_features: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_features))
        self.register_buffer("deviation", torch.ones(num_features))

    def fit(self, mean: Tensor, deviation: Tensor) -> "Standardize":
        """A feature that is the same for all examples of train is not scaled."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation.masked_fill(deviation == 0, 1))
        return self

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) / self.deviation


class MLP(nn.Module):
    """h = act(x W + b), as often as there are hidden layers, and a linear layer; none of them is linear regression.

    >>> MLP(4, 3, hidden_size=8, num_layers=1)(torch.randn(2, 4)).shape      # B D -> B V
    torch.Size([2, 3])
    """

    def __init__(
        self,
        num_features: int,
        outputs: int,
        hidden_size: int = 64,
        num_layers: int = 2,
        nonlinearity: str = "relu",
        dropout: float = 0.0,
        standardize: bool = False,
    ) -> None:
        super().__init__()
        self.standardize = Standardize(num_features) if standardize else None
        widths = [num_features, *[hidden_size] * num_layers, outputs]
        layers: list[nn.Module] = []
        for number, (in_features, out_features) in enumerate(pairwise(widths)):
            if number:
                layers += [NONLINEARITIES[nonlinearity](), *([nn.Dropout(dropout)] if dropout else [])]
            layers.append(nn.Linear(in_features, out_features))
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        output: Tensor = self.layers(x if self.standardize is None else self.standardize(x))
        return output


class MLPWithLoss(MLP):
    """What `porism cost` counts."""

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        return functional.cross_entropy(super().forward(x), labels)


def model_cost(recipe: SupervisedRecipe) -> Terms:
    """The cost of a step with B examples, which need no gradient themselves."""
    if recipe.model == "linear":
        return Terms(
            parameters={"readout": D * V + V},
            flops={"readout": 2 * B * D * V},
            backward_flops={"readout": 2 * B * D * V},
        )
    inner = recipe.num_layers - 1
    first, readout = 2 * B * D * H, 2 * B * H * V
    hidden = {"hidden": inner * 2 * B * H**2} if inner else {}
    return Terms(
        parameters={"input": D * H + H, **({"hidden": inner * (H**2 + H)} if inner else {}), "readout": H * V + V},
        flops={"input": first, **hidden, "readout": readout},
        backward_flops={"input": first, **{name: 2 * term for name, term in hidden.items()}, "readout": 2 * readout},
    )

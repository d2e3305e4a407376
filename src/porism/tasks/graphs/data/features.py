"""Features of nodes as a model reads them: as given, standardised, or one-hot."""

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from porism.layers.gcn import SparseFeatures
from porism.tasks.graphs.data.labelled_graph import SPARSE_BELOW, Features, LabelledGraph, one_hot_features
from porism.tasks.graphs.data.mapped import FeatureSums, MappedFeatures


class FeatureScale(NamedTuple):
    """Mean and standard deviation of each column over the training graph. Without a mean, columns stay where they are.

    >>> x = torch.tensor([[20.0, 1.0], [40.0, 1.0]])
    >>> FeatureScale.of(x)(x)                       # a constant column becomes 0
    tensor([[-1.,  0.],
            [ 1.,  0.]])
    """

    mean: Tensor | None
    std: Tensor

    @classmethod
    def of(cls, x: Features) -> "FeatureScale":
        """Of dense features both; of sparse ones the deviation alone: less a mean, they would be sparse no more."""
        assert not isinstance(x, MappedFeatures)
        if isinstance(x, Tensor):
            std, mean = torch.std_mean(x.double(), 0, correction=0)
            return cls(mean, _not_zero(std))
        values, columns = x.there.values.double(), x.there.columns.long()
        sums, squares = (
            values.new_zeros(x.width).index_add(0, columns, values**power) / x.there.height for power in (1, 2)
        )
        return cls(None, _not_zero((squares - sums**2).clamp_min(0).sqrt()))

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> "FeatureScale":
        mean, std = (
            None if column is None else torch.tensor(column, dtype=torch.float64)
            for column in (saved["mean"], saved["std"])
        )
        assert std is not None
        return cls(mean, std)

    def to_json(self) -> dict[str, Any]:
        return {"mean": None if self.mean is None else self.mean.tolist(), "std": self.std.tolist()}

    @classmethod
    def of_sums(cls, sums: FeatureSums) -> "FeatureScale":
        """The same of features that were read once: those of which few are not zero keep their zeros."""
        return cls(None if sums.share < SPARSE_BELOW else sums.mean, _not_zero(sums.std))

    def __call__(self, x: Features) -> Features:
        if isinstance(x, MappedFeatures):
            return x.transformed(lambda rows: cast(Tensor, self(rows)))
        if isinstance(x, Tensor):
            return ((x.double() - (0 if self.mean is None else self.mean)) / self.std).float()
        return x.with_values((x.there.values.double() / self.std[x.there.columns.long()]).float())


def scale_of(data: LabelledGraph, how: str) -> FeatureScale | None:
    """How the features of a training graph are scaled, by the recipe's `features`; None where they stay as given.

    `auto` standardises the features of your own tables and arrays, unless all of them are 0 or 1.
    """
    x = data.features
    if data.sums is not None:
        of_marks = data.sums.only_marks
    else:
        assert not isinstance(x, MappedFeatures)  # which come with their sums
        values = x.there.values if isinstance(x, SparseFeatures) else x
        of_marks = bool(((values == 0) | (values == 1)).all())
    if how != "standardized" and (how != "auto" or not data.own_features or of_marks):
        return None
    return FeatureScale.of(x) if data.sums is None else FeatureScale.of_sums(data.sums)


def with_features(data: LabelledGraph, how: str) -> LabelledGraph:
    """The graph with the features that the recipe's `features` asks for: its own, or a column for each node."""
    return data.replaced_features(one_hot_features(data.graph.num_nodes)) if how == "one-hot" else data


def _not_zero(std: Tensor) -> Tensor:
    return torch.where(std > 0, std, 1.0)

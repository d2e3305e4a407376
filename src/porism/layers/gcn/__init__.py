"""The graph convolution: y = Ahat x W + b, where Ahat says who hears whom, and how loud."""

from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.functional import Propagated, graph_convolution
from porism.layers.gcn.graph import Graph
from porism.layers.gcn.layer import GraphConvolution

__all__ = ["Graph", "GraphConvolution", "Propagated", "SparseFeatures", "graph_convolution"]

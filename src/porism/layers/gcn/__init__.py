"""Graph convolution: y = Ahat x W^T + b, where Ahat is the normalized adjacency matrix."""

from porism.layers.gcn.features import SparseFeatures
from porism.layers.gcn.functional import Propagated, graph_convolution
from porism.layers.gcn.graph import Graph
from porism.layers.gcn.layer import GraphConvolution

__all__ = ["Graph", "GraphConvolution", "Propagated", "SparseFeatures", "graph_convolution"]

from porism import errors as errors
from porism import functional as functional
from porism import layers as layers
from porism import testing as testing
from porism.api.compare import Comparison as Comparison
from porism.api.cost import cost as cost
from porism.api.run import Run as Run
from porism.api.run import load as load
from porism.api.typed import compare as compare
from porism.api.typed import train as train
from porism.costing.cost import Cost as Cost
from porism.costing.quantity import Quantity as Quantity
from porism.costing.terms import Terms as Terms
from porism.layers.attention.auto import AutoAttention as AutoAttention
from porism.layers.attention.auto import attention as attention
from porism.layers.attention.hybrid.layer import HybridAttention as HybridAttention
from porism.layers.attention.hybrid.state import HybridState as HybridState
from porism.layers.attention.pattern import Pattern as Pattern
from porism.layers.attention.softmax.cache import KVCache as KVCache
from porism.layers.attention.softmax.layer import Attention as Attention
from porism.layers.attention.taylor.layer import TaylorAttention as TaylorAttention
from porism.layers.attention.taylor.state import TaylorState as TaylorState
from porism.layers.attention.window.layer import WindowAttention as WindowAttention
from porism.layers.gcn.graph import Graph as Graph
from porism.layers.gcn.layer import GraphConvolution as GraphConvolution
from porism.layers.readout.layer import Readout as Readout
from porism.layers.recurrent.elman.layer import Elman as Elman
from porism.layers.recurrent.grid.layer import Grid as Grid
from porism.layers.recurrent.lstm.layer import LSTM as LSTM
from porism.layers.skipgram.layer import SkipGram as SkipGram

__version__: str

__all__ = [
    "LSTM",
    "Attention",
    "AutoAttention",
    "Comparison",
    "Cost",
    "Elman",
    "Graph",
    "GraphConvolution",
    "Grid",
    "HybridAttention",
    "HybridState",
    "KVCache",
    "Pattern",
    "Quantity",
    "Readout",
    "Run",
    "SkipGram",
    "TaylorAttention",
    "TaylorState",
    "Terms",
    "WindowAttention",
    "attention",
    "compare",
    "cost",
    "errors",
    "functional",
    "layers",
    "load",
    "testing",
    "train",
]

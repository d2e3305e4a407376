"""One case for every layer: how the contract builds it, runs it, and what it must refuse."""

from tests.layers.cases.attention import ATTENTION
from tests.layers.cases.elman import ELMAN
from tests.layers.cases.gcn import GCN
from tests.layers.cases.grid import GRID
from tests.layers.cases.hybrid import HYBRID
from tests.layers.cases.lstm import LSTM_CASE
from tests.layers.cases.readout import READOUT
from tests.layers.cases.skipgram import SKIPGRAM
from tests.layers.cases.taylor import TAYLOR
from tests.layers.cases.window import WINDOW

CASES = {
    "attention": ATTENTION,
    "elman": ELMAN,
    "gcn": GCN,
    "grid": GRID,
    "hybrid": HYBRID,
    "lstm": LSTM_CASE,
    "readout": READOUT,
    "skipgram": SKIPGRAM,
    "taylor": TAYLOR,
    "window": WINDOW,
}

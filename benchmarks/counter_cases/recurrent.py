"""Recurrent nets: torch's kernels, its cells in a loop, loops of one's own."""

from sympy import Expr
from torch import nn

from counter_cases.case import Case, call
from counter_cases.inputs import asking
from counter_cases.models import LoopedCell, Repeated, WrittenCell
from porism.costing.alphabet import B, D, H, K, T
from porism.layers import Elman


def recurrent(gates: int, *widths: Expr) -> tuple[Expr, Expr]:
    """A layer or direction for each input width: all gates of all tokens meet an input and a recurrent matrix."""
    forward = sum(2 * gates * B * T * H * (width + H) for width in widths)
    return forward, 2 * forward


RECURRENT = [
    Case("RNN", lambda T, B, D, H: call(nn.RNN(D, H), asking(T, B, D), asking(1, B, H)), *recurrent(1, D)),
    Case(
        "RNN, first state fixed",
        lambda T, B, D, H: call(nn.RNN(D, H), asking(T, B, D)),
        2 * B * T * H * (D + H),
        # Nothing goes back into the first state: T - 1 of the T products with the recurrent matrix.
        4 * B * T * D * H + 2 * B * T * H**2 + 2 * B * (T - 1) * H**2,
    ),
    Case(
        "RNN, 2 layers", lambda T, B, D, H: call(nn.RNN(D, H, 2), asking(T, B, D), asking(2, B, H)), *recurrent(1, D, H)
    ),
    Case(
        "RNN, both directions",
        lambda T, B, D, H: call(nn.RNN(D, H, bidirectional=True), asking(T, B, D), asking(2, B, H)),
        *recurrent(1, D, D),
    ),
    Case(
        "LSTM",
        lambda T, B, D, H: call(nn.LSTM(D, H), asking(T, B, D), (asking(1, B, H), asking(1, B, H))),
        *recurrent(4, D),
    ),
    Case(
        "LSTM, 2 layers",
        lambda T, B, D, H: call(nn.LSTM(D, H, 2), asking(T, B, D), (asking(2, B, H), asking(2, B, H))),
        *recurrent(4, D, H),
    ),
    Case(
        "LSTM, 2 layers, both directions",
        lambda T, B, D, H: call(
            nn.LSTM(D, H, 2, bidirectional=True), asking(T, B, D), (asking(4, B, H), asking(4, B, H))
        ),
        # The upper layer reads both directions of the lower.
        *recurrent(4, D, D, 2 * H, 2 * H),
    ),
    Case("GRU", lambda T, B, D, H: call(nn.GRU(D, H), asking(T, B, D), asking(1, B, H)), *recurrent(3, D)),
    Case(
        "GRU, 2 layers", lambda T, B, D, H: call(nn.GRU(D, H, 2), asking(T, B, D), asking(2, B, H)), *recurrent(3, D, H)
    ),
    Case(
        "GRU, both directions",
        lambda T, B, D, H: call(nn.GRU(D, H, bidirectional=True), asking(T, B, D), asking(2, B, H)),
        *recurrent(3, D, D),
    ),
    Case(
        "RNNCell in a loop",
        lambda T, B, D, H: call(LoopedCell(nn.RNNCell(D, H)), asking(T, B, D), asking(B, H)),
        *recurrent(1, D),
    ),
    Case(
        "LSTMCell in a loop",
        lambda T, B, D, H: call(LoopedCell(nn.LSTMCell(D, H)), asking(T, B, D), asking(B, H), asking(B, H)),
        *recurrent(4, D),
    ),
    Case(
        "GRUCell in a loop",
        lambda T, B, D, H: call(LoopedCell(nn.GRUCell(D, H)), asking(T, B, D), asking(B, H)),
        *recurrent(3, D),
    ),
    Case(
        "two Linear in a loop",
        lambda T, B, D, H: call(WrittenCell(D, H), asking(T, B, D), asking(B, H)),
        *recurrent(1, D),
    ),
    Case(
        "one Linear, K times",
        lambda B, D, K: call(Repeated(D, K), asking(B, D)),
        2 * B * D**2 * K,
        4 * B * D**2 * K,
    ),
    Case("Elman", lambda T, B, D, H: call(Elman(D, H), asking(T, B, D), asking(1, B, H)), *recurrent(1, D)),
]

"""The attention methods that can be named, and those among which "auto" and "series" choose."""

from porism.layers.attention.hybrid.method import HYBRID
from porism.layers.attention.method import Method
from porism.layers.attention.request import RequestSizes
from porism.layers.attention.softmax.method import DENSE_SOFTMAX, SOFTMAX
from porism.layers.attention.taylor.dense import DENSE_TAYLOR
from porism.layers.attention.taylor.method import TAYLOR
from porism.layers.attention.window.method import WINDOW

METHODS: dict[str, Method] = {
    method.name: method for method in (SOFTMAX, WINDOW, DENSE_SOFTMAX, TAYLOR, DENSE_TAYLOR, HYBRID)
}

CHOOSING = ("auto", "series")
"""Mechanisms that are a choice: among all that serve a request, and among those that take the series."""


def candidates(sizes: RequestSizes, mechanism: str = "auto") -> list[Method]:
    """The methods among which to choose, all of which compute what was requested, up to rounding.

    By the series: those of its order. Else what is exact; with an order also the series, which is as far off as was
    allowed; with a window_size too the hybrid instead, since near keys have to be exact.
    """
    among = METHODS.values() if mechanism == "auto" else (TAYLOR, DENSE_TAYLOR)
    # What the series cannot do, it refuses itself.
    return [method for method in among if method.serves(sizes)] or [TAYLOR]

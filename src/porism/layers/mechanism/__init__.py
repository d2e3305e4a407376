"""One function for all mechanisms, which can choose the cheapest."""

from porism.layers.mechanism.choice import Choice
from porism.layers.mechanism.module import AutoAttention
from porism.layers.mechanism.operation import attention, choose

__all__ = ["AutoAttention", "Choice", "attention", "choose"]

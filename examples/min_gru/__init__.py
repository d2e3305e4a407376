"""minGRU: a recurrent layer whose gates do not look back, as an example of a layer of your own."""

from examples.min_gru.layer import MinGRU

__all__ = ["MinGRU"]

"""Models of the transformers package and layers of PyTorch Geometric, each as a function of letters.

Letters beyond the alphabet: G experts, L layers, P patches a side or the size of a state, R a rank, S source length.
"""

from real_model_cases.case import Case
from real_model_cases.graphs import GRAPHS
from real_model_cases.signals import SIGNALS
from real_model_cases.text import TEXT

__all__ = ["CASES", "Case"]

CASES = {case.name: case for case in (*TEXT, *SIGNALS, *GRAPHS)}

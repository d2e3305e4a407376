"""The experiment that the source reports: two decoders on one encoder, trained on LJ Speech."""

from porism.claims.kept.experiments import EXPERIMENTS
from porism.tasks.speech.catalogue import PUBLIC
from porism.tasks.speech.recipes import PUBLISHED

COMMAND = EXPERIMENTS["ljspeech-decoders"].command
NEEDS = f"LJSpeech-1.1.tar.bz2, from {PUBLIC['ljspeech'].files['all'].url}, or: porism data fetch ljspeech"

ON_AN4 = EXPERIMENTS["decoder-question"].command
OTHER_DATA = "All of LJ Speech is not at hand: a smaller corpus, AN4, stands in for it."

BEFORE, AFTER = (PUBLISHED[f"{decoder}-ljspeech"]["test"] for decoder in ("lstm", "attention"))
"""What was measured with the LSTM, and with attention."""


def gain(metric: str) -> float:
    """What attention adds to a metric.

    >>> round(gain("jaccard"), 3)
    0.049
    """
    return AFTER[metric] - BEFORE[metric]


def relative_gain(metric: str) -> float:
    return gain(metric) / BEFORE[metric]

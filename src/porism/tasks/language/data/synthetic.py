"""A language whose entropy is known exactly, so that a model's distance from the limit can be read off.

Words follow each other in a Markov chain: the next word depends on the last one alone. The chain is drawn from a fixed
seed, `<eos>` is one of its states, so lines end by chance like any other step, and no line is empty.

Two limits come with a sample. The entropy rate is what a perfect model pays per token in the long run. The
cross-entropy of the chain itself on one finite stream scatters around it, and is the fairer mark for that stream: a
model that does better there was lucky, or has learned that very stream by heart, as it may the training stream.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from porism.tasks.language.data.vocabulary import EOS, UNK, Vocabulary

SEED = 1906
"""Fixed: the corpus is the same for every run. 1906 is the year of Markov's first chain."""
STATES = 64
SUCCESSORS = 8
"""How many words can follow a word. Few, so that a small net can learn every one of them from the training stream."""
TOKENS = {"train": 200_000, "valid": 100_000, "test": 100_000}


@dataclass(frozen=True, eq=False)
class Chain:
    """A Markov chain over words. `transitions[i, j]` is the probability that word j follows word i.

    >>> coin = Chain(("heads", "tails"), np.full((2, 2), 0.5))
    >>> coin.entropy_rate() == math.log(2)
    True
    """

    words: tuple[str, ...]
    transitions: NDArray[np.float64]

    def stationary(self) -> NDArray[np.float64]:
        """How often each word occurs in the long run: pi = pi P with sum pi = 1, solved as linear equations."""
        states = len(self.words)
        equations = self.transitions.T - np.eye(states)
        # The states' equations sum to zero, so one of them is redundant and is replaced by the sum.
        equations[-1] = 1.0
        solution: NDArray[np.float64] = np.linalg.solve(equations, np.eye(states)[-1])
        return solution

    def entropy_rate(self) -> float:
        """Nats per word: sum_i pi_i H(P_i)."""
        P = self.transitions
        surprises = -np.log(P, where=P > 0, out=np.zeros_like(P))  # 0 log 0 is 0
        return float(self.stationary() @ (P * surprises).sum(axis=1))

    def cross_entropy(self, states: NDArray[np.int64]) -> float:
        """Mean nats the chain itself pays on a stream, from its second word on."""
        return float(-np.log(self.transitions[states[:-1], states[1:]]).mean())

    def sample(self, tokens: int, generator: np.random.Generator, *, after: int = 0) -> NDArray[np.int64]:
        """A walk of `tokens` steps that begins with a step from the state `after`."""
        cumulative = self.transitions.cumsum(axis=1)
        cumulative /= cumulative[:, -1:]
        states = np.empty(tokens, dtype=np.int64)
        for step, uniform in enumerate(generator.random(tokens)):
            after = states[step] = cumulative[after].searchsorted(uniform, side="right")
        return states


@dataclass(frozen=True, eq=False)
class SyntheticText:
    """Streams drawn from one chain, with the limits no model can beat but by chance."""

    vocabulary: Vocabulary
    streams: dict[str, Tensor]
    entropy: float
    limits: dict[str, float]


def synthetic() -> SyntheticText:
    """The default chain's train, valid and test streams. `<unk>` is in the vocabulary and never occurs."""
    generator = np.random.default_rng(SEED)
    chain = draw_chain(STATES, SUCCESSORS, generator)
    walks = {split: chain.sample(tokens, generator) for split, tokens in TOKENS.items()}
    by_frequency = np.argsort(-chain.stationary())
    vocabulary = Vocabulary((*(chain.words[state] for state in by_frequency), UNK))
    number = np.argsort(by_frequency)
    return SyntheticText(
        vocabulary,
        streams={split: torch.from_numpy(number[walk]) for split, walk in walks.items()},
        entropy=chain.entropy_rate(),
        limits={split: chain.cross_entropy(walk) for split, walk in walks.items()},
    )


def draw_chain(states: int, successors: int, generator: np.random.Generator) -> Chain:
    """A chain of `states` words, state 0 being `<eos>`. `successors` words can follow a word, with Dirichlet weights.

    One of the successors is the next state, so every word can be reached from every other. No word follows itself, so
    no line is empty.
    """
    transitions = np.zeros((states, states))
    for state in range(states):
        others = generator.permutation(states - 2)[: successors - 1] + 2
        followers = (state + np.array([1, *others])) % states
        transitions[state, followers] = generator.dirichlet(np.ones(successors))
    return Chain((EOS, *invent_words(states - 1, generator)), transitions)


def invent_words(count: int, generator: np.random.Generator) -> list[str]:
    """Different words that can be spoken, such as `bado` and `mivu`."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = [first + second for first in syllables for second in syllables]
    return [words[index] for index in generator.choice(len(words), size=count, replace=False)]

"""Recurrent language models: sizes, gradients of a step, perplexity, and what training them gave."""

from porism.claims.claim import Statement
from porism.claims.topics.recurrent.perplexity import CLAIMS as PERPLEXITY
from porism.claims.topics.recurrent.scores import CLAIMS as SCORES
from porism.claims.topics.recurrent.sizes import CLAIMS as SIZES
from porism.claims.topics.recurrent.states import CLAIMS as STATES
from porism.claims.topics.recurrent.training import CLAIMS as TRAINING

CLAIMS: tuple[Statement, ...] = (*SIZES, *SCORES, *STATES, *PERPLEXITY, *TRAINING)

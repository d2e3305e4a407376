"""Skip-gram: the gradients of a pair's log-likelihood, and estimates of them from a few words."""

from porism.claims.claim import Statement
from porism.claims.topics.words import estimates, gradients

CLAIMS: tuple[Statement, ...] = gradients.CLAIMS + estimates.CLAIMS

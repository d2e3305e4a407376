"""The ledger: textbook statements, each with the check that decides it, or with what could."""

from porism.claims.claim import Claim, Empirical, Finding, Ruling
from porism.claims.decide import Decision, decide
from porism.claims.ledger import TOPICS, all_claims, read_ledger

__all__ = ["TOPICS", "Claim", "Decision", "Empirical", "Finding", "Ruling", "all_claims", "decide", "read_ledger"]

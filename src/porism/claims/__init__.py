"""The ledger: textbook statements, each with the check that decides it."""

from porism.claims.claim import Claim, Empirical, Finding
from porism.claims.ledger import TOPICS, Decision, all_claims, decide, read_ledger

__all__ = ["TOPICS", "Claim", "Decision", "Empirical", "Finding", "all_claims", "decide", "read_ledger"]

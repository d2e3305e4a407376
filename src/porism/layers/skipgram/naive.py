"""The oracle: one pair and one word at a time, clear and slow. Sums over B pairs, as in the README."""

import math

import torch
from torch import Tensor


def log_likelihood(v: Tensor, U: Tensor, j: int) -> Tensor:
    """l = u_j . v - log sum_k exp(u_k . v) for one word v (D) and its context j, U (V, D)."""
    scores = [(u * v).sum() for u in U]
    # The largest score goes out of the sum, so that no exp overflows.
    largest = torch.stack(scores).detach().max()
    Z = torch.stack([torch.exp(score - largest) for score in scores]).sum()
    l: Tensor = scores[j] - largest - torch.log(Z)  # noqa: E741
    return l


def loss(v: Tensor, U: Tensor, j: Tensor) -> Tensor:
    """-l of B pairs, summed: v (B, D), U (V, D), j (B,)."""
    return -torch.stack([log_likelihood(v[b], U, int(j[b])) for b in range(len(j))]).sum()


def sampled_loss(name: str, v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor) -> Tensor:
    """The loss of an estimator that has one, summed over B pairs: samples k (B, m), their probabilities q (V)."""
    return torch.stack([_pair(name, v[b], U, int(j[b]), k[b].tolist(), q) for b in range(len(j))]).sum()


def _pair(name: str, v: Tensor, U: Tensor, j: int, k: list[int], q: Tensor) -> Tensor:
    m = len(k)
    s_j = (U[j] * v).sum()
    s = [(U[word] * v).sum() for word in k]
    match name:
        case "self-normalised":
            # Z is estimated by the mean of exp(s_k) / q_k.
            Z = torch.stack([torch.exp(s[t]) / (m * q[k[t]]) for t in range(m)]).sum()
            return torch.log(Z) - s_j
        case "sampled-softmax":
            others = [torch.exp(s[t]) / (m * q[k[t]]) for t in range(m) if k[t] != j]
            return torch.log(torch.stack([torch.exp(s_j), *others]).sum()) - s_j
        case "nce":
            delta_j = s_j - torch.log(m * q[j])
            delta = [s[t] - torch.log(m * q[k[t]]) for t in range(m)]
            return _told_apart(delta_j, delta)
        case "negative":
            return _told_apart(s_j, s)
        case _:
            raise ValueError(f"{name} has no loss of its own")


def _told_apart(s_j: Tensor, s: list[Tensor]) -> Tensor:
    return -torch.log(torch.sigmoid(s_j)) - torch.stack([torch.log(torch.sigmoid(-s_k)) for s_k in s]).sum()


def given_p(name: str, v: Tensor, U: Tensor, j: Tensor, k: Tensor, q: Tensor, p: Tensor) -> Tensor:
    """A function whose gradient is the estimate that takes p (B, V) as given. Its value means nothing."""
    total = torch.zeros((), dtype=v.dtype)
    for b in range(len(j)):
        for word in k[b].tolist():
            share = 1 / k.shape[1]
            score = (U[word] * v[b]).sum()
            if name == "uniform":
                y = float(word == int(j[b]))
                total = total - share * len(U) * (y - p[b, word]) * score
            else:
                total = total + share * p[b, word] / q[word] * score
        if name == "importance":
            total = total - (U[int(j[b])] * v[b]).sum()
    return total


def optimum(joint: Tensor, noise: Tensor, m: int) -> Tensor:
    """The scores u_j . v_i that negative sampling ends at: log(P(i, j) / (P(i) q_j)) - log m, (V, V)."""
    return torch.log(joint / (joint.sum(1, keepdim=True) * noise)) - math.log(m)

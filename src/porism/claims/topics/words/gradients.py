"""The gradients of l = u_j . v_i - log sum exp(u_k . v_i), each against autograd; forms are shown a Pair."""

from collections.abc import Callable

import torch
from torch import Tensor

from porism.claims.checks.compare import compared, counted_equal, tried
from porism.claims.checks.count import Maker, Matrix, Vector, product, softmax, tallied, transposed
from porism.claims.claim import Claim, Finding, Statement
from porism.claims.topics.words.pair import SIZES, Pair, by_autograd, random_pair
from porism.layers.skipgram import SkipGram, naive

OfPair = Callable[[Pair], Tensor]


def by_word(form: OfPair) -> Finding:
    """form(pair) against dl/dv_i."""
    return compared(
        (_at(V, D), by_autograd(V, D).words[:, random_pair(V, D).i], tried(form, random_pair(V, D)))
        for V, D in (*SIZES, (1, 1))
    )


def by_contexts(form: OfPair) -> Finding:
    """form(pair) against dl/dU, (D, V)."""
    return compared((_at(V, D), by_autograd(V, D).U, tried(form, random_pair(V, D))) for V, D in SIZES)


def by_own_context(form: OfPair) -> Finding:
    """form(pair) against dl/du_j, j being the context that was seen."""
    return compared(
        (_at(V, D), by_autograd(V, D).U[:, random_pair(V, D).j], tried(form, random_pair(V, D)))
        for V, D in (*SIZES, (1, 3))
    )


def by_another_context(form: Callable[[Pair, int], Tensor]) -> Finding:
    """form(pair, k) against dl/du_k, for every context k that was not seen."""
    return compared(
        (f"{_at(V, D)}, k={k}", by_autograd(V, D).U[:, k], tried(form, random_pair(V, D), k))
        for V, D in SIZES
        for k in range(V)
        if k != random_pair(V, D).j
    )


def cross_entropy(form: OfPair) -> Finding:
    """form(pair) against the layer's loss."""
    pairs = [(_at(V, D), random_pair(V, D)) for V, D in (*SIZES, (1, 3))]
    return compared(
        (where, naive.loss(pair.v[None], pair.U.T, torch.tensor([pair.j])), form(pair)) for where, pair in pairs
    )


def words_that_matter(form: Callable[[int, int, int], Tensor]) -> Finding:
    """form(V, i, j) against which words' vectors get a gradient from a pair, (V,): 1 where one does."""
    cases = []
    for V, i, j in ((7, 2, 5), (7, 5, 2), (3, 0, 1)):
        layer = SkipGram(V, 4, dtype=torch.float64)
        torch.nn.init.normal_(layer.context_weight, generator=torch.Generator().manual_seed(V))
        layer(torch.tensor([i]), torch.tensor([j])).backward()
        assert layer.weight.grad is not None
        cases.append((f"V={V}, i={i}, j={j}", layer.weight.grad.abs().sum(1) > 0, form(V, i, j)))
    return compared(cases)


def scalar_step(v: Vector, U: Matrix, j: int, with_contexts: bool = True) -> tuple[Vector, Matrix | None]:
    """The gradients of -l by v (D), and by U (D, V) where it is requested: number by number."""
    probs = softmax(product([v], U)[0])
    c = [prob - float(k == j) for k, prob in enumerate(probs)]
    return product([c], transposed(U))[0], product(transposed([v]), [c]) if with_contexts else None


def multiplications(form: Callable[[int, int, bool], int]) -> Finding:
    """form(V, D, with dl/dU) against the multiplications of a pair's gradients, counted one by one."""

    def counted(V: int, D: int, with_contexts: bool) -> int:
        def program(made: Maker) -> object:
            return scalar_step(made.vector(D), made.matrix(D, V), 1, with_contexts)

        return tallied(program).mul

    parts = {"dl/dv alone": False, "dl/dv and dl/dU": True}
    return counted_equal(
        (f"{_at(V, D)}, {part}", counted(V, D, too), form(V, D, too)) for V, D in SIZES for part, too in parts.items()
    )


def _at(V: int, D: int) -> str:
    return f"V={V}, D={D}"


def _likelihood(pair: Pair) -> Tensor:
    return pair.u_j @ pair.v - (pair.U.T @ pair.v).logsumexp(0)


def _only(V: int, *words: int) -> Tensor:
    return torch.zeros(V).index_fill(0, torch.tensor(words), 1.0)


CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="004-13",
        topic="words",
        where="3a",
        says="The cross-entropy of a pair is u_j . v_i - log sum_k exp(u_k . v_i).",
        verdict="wrong",
        precise=(
            "That is the log-likelihood l, which is never above zero; the cross-entropy is -l. Gradients of l change "
            "their sign where a loss is to fall."
        ),
        judge=cross_entropy,
        stated=_likelihood,
        corrected=lambda pair: -_likelihood(pair),
        # There is nothing else to predict, and both are zero.
        right_where=lambda pair: len(pair.y) == 1,
    ),
    Claim(
        id="004-14",
        topic="words",
        where="3a",
        says="Of all words' vectors only that of word i itself gets a gradient.",
        verdict="holds",
        judge=words_that_matter,
        stated=lambda V, i, j: _only(V, i),
        rival=lambda V, i, j: _only(V, i, j),
    ),
    Claim(
        id="004-15",
        topic="words",
        where="3a",
        says="The gradient by v_i is u_j less the mean of all contexts, each weighed by its prob: u_j - U yhat.",
        verdict="holds",
        precise="Contexts are the columns of U.",
        judge=by_word,
        stated=lambda pair: pair.u_j - pair.U @ pair.yhat,
        rival=lambda pair: pair.u_j * (1 - pair.yhat[pair.j]),
    ),
    Claim(
        id="004-16",
        topic="words",
        where="3a",
        says="The same is u_j - U softmax(U v_i).",
        verdict="imprecise",
        precise="Contexts are columns, so the scores are U^T v_i: u_j - U softmax(U^T v_i).",
        judge=by_word,
        stated=lambda pair: pair.u_j - pair.U @ torch.softmax(pair.U @ pair.v, 0),
        corrected=lambda pair: pair.u_j - pair.U @ torch.softmax(pair.U.T @ pair.v, 0),
        right_where=lambda pair: pair.U.numel() == 1,
    ),
    Claim(
        id="004-17",
        topic="words",
        where="3a",
        says="By a context k that was not seen it is -sum_m exp(u_m . v_i) v_i / sum_m exp(u_m . v_i).",
        verdict="wrong",
        precise="The sums cancel, so that this is -v_i for every k. The gradient is -yhat_k v_i.",
        judge=by_another_context,
        stated=lambda pair, k: -(pair.v * (pair.U.T @ pair.v).exp()[:, None]).sum(0) / (pair.U.T @ pair.v).exp().sum(),
        corrected=lambda pair, k: -pair.yhat[k] * pair.v,
    ),
    Claim(
        id="004-18",
        topic="words",
        where="3a",
        says="The same is -V softmax(U v_i), V being the vectors of all words.",
        verdict="wrong",
        precise="No word but i has a part in it, and each k has a prob of its own: -yhat_k v_i.",
        judge=by_another_context,
        # With the scores' shape put right, as in 004-16.
        stated=lambda pair, k: -pair.words @ pair.yhat,
        corrected=lambda pair, k: -pair.yhat[k] * pair.v,
    ),
    Claim(
        id="004-19",
        topic="words",
        where="3a",
        says="By the context that was seen it is v_i - V softmax(U v_i).",
        verdict="wrong",
        precise="It is (1 - yhat_j) v_i. With 004-17 all contexts together have dl/dU = v_i (y - yhat)^T.",
        judge=by_own_context,
        stated=lambda pair: pair.v - pair.words @ pair.yhat,
        corrected=lambda pair: (1 - pair.yhat[pair.j]) * pair.v,
        right_where=lambda pair: len(pair.y) == 1,
    ),
    Claim(
        id="004-20",
        topic="words",
        where="3a",
        says="The gradients of a pair take O(V D) steps, most of them for the softmax within dl/dv_i.",
        verdict="holds under assumptions",
        precise=(
            "The order is right. That dl/dv_i dominates is true only where dl/dU is left out: all V columns of U get a "
            "gradient, with as many multiplications as the scores take, and as dl/dv_i takes after them."
        ),
        formulas=("3*V*D",),
        judge=multiplications,
        stated=lambda V, D, with_contexts: 2 * V * D,
        corrected=lambda V, D, with_contexts: 2 * V * D + (V * D if with_contexts else 0),
        assumed=lambda V, D, with_contexts: not with_contexts,
    ),
    Claim(
        id="004-21",
        topic="words",
        where="3b",
        says="The gradient by U is u_j - U yhat.",
        verdict="wrong",
        precise="That is the gradient by v_i, a single vector. By U it is v_i (y - yhat)^T, a column for each context.",
        judge=by_contexts,
        stated=lambda pair: pair.u_j - pair.U @ pair.yhat,
        corrected=lambda pair: torch.outer(pair.v, pair.y - pair.yhat),
        computable=False,
    ),
    Claim(
        id="004-22",
        topic="words",
        where="3b",
        says="U (y - yhat) is the mean of the V vectors V (y_k - yhat_k) u_k.",
        verdict="holds",
        precise=(
            "A plain mean. It is no weighted average of the u_k, since the weights y_k - yhat_k sum to zero: "
            "u_j less an average by yhat is."
        ),
        judge=by_word,
        stated=lambda pair: (len(pair.y) * (pair.y - pair.yhat) * pair.U).mean(1),
        rival=lambda pair: pair.U @ (pair.y - pair.yhat) / (pair.y - pair.yhat).abs().sum(),
    ),
)

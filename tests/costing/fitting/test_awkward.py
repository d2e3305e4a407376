"""Code as people write it: what branches, pads, loops, ties, freezes, recomputes, casts or reads numbers."""

from typing import Any

import pytest
import torch
from sympy import expand
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from porism.costing.alphabet import B, D, H, T
from porism.costing.derive import derive
from porism.errors import PorismError


def same(formula: Any, expected: Any) -> bool:
    return bool(expand(formula - expected) == 0)


class Padded(nn.Module):
    """Lengths are padded to a multiple of 8, as kernels want them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.product = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.product(functional.pad(x, (0, 0, 0, -x.shape[1] % 8)))
        return out


def test_padding_to_a_multiple_is_in_the_formula() -> None:
    derived = derive(lambda D: Padded(D), "B T D")
    for length in (1, 7, 8, 9, 63, 64, 65, 1001):
        assert derived.at(B=2, T=length, D=3)["flops"] == 2 * 2 * 9 * (-(-length // 8) * 8)


class Branching(nn.Module):
    """Short inputs take the dense way, long ones a low-rank one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.down = nn.Linear(width, 2, bias=False)
        self.up = nn.Linear(2, width, bias=False)
        self.full = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.full(x) if x.shape[1] <= 32 else self.up(self.down(x))
        return out


def test_a_branch_on_a_size_is_in_the_formula() -> None:
    derived = derive(Branching(16), "B T 16")
    for length, width in ((1, 16), (31, 16), (32, 16), (33, 4), (64, 4), (1000, 4)):
        assert derived.at(B=3, T=length)["flops"] == 2 * 3 * length * 16 * width


def test_tied_weights_are_counted_once_and_used_twice() -> None:
    class Tied(nn.Module):
        def __init__(self, V: int, D: int) -> None:
            super().__init__()
            self.words = nn.Embedding(V, D)
            self.scores = nn.Linear(D, V, bias=False)
            self.scores.weight = self.words.weight

        def forward(self, tokens: Tensor) -> Tensor:
            out: Tensor = self.scores(self.words(tokens))
            return out

    derived = derive(lambda V, D: Tied(V, D), "B T : int < V")
    assert str(derived.parameters) == "D*V"
    assert str(derived.flops) == "2*B*D*T*V"
    # Of the product two in the backward pass, of looking up none.
    assert str(derived.backward_flops) == "4*B*D*T*V"


def test_frozen_weights_have_no_gradient_to_compute_or_to_keep() -> None:
    def half_frozen(D: int) -> nn.Module:
        net = nn.Sequential(nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False))
        net[0].requires_grad_(False)
        return net

    derived = derive(half_frozen, "B D : data")
    assert same(derived.parameters, 2 * D**2)
    assert same(derived.flops, 4 * B * D**2)
    assert same(derived.backward_flops, 2 * B * D**2)
    memory = derived.memory("adam")
    assert same(memory.parameters, 8 * D**2)
    assert same(memory.gradients, 4 * D**2)
    assert same(memory.optimizer, 8 * D**2 + 4)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: {"logits": y, "more": [y * 2]},
        lambda y: (y, (y, None)),
        lambda y: torch.return_types.max((y, y.argmax(-1))),
    ],
    ids=["dict", "tuple", "named tuple"],
)
def test_what_a_module_returns_does_not_matter(wrap: Any) -> None:
    class Wrapping(nn.Linear):
        def forward(self, x: Tensor) -> Any:
            return wrap(super().forward(x))

    assert same(derive(lambda D, H: Wrapping(D, H), "B D").backward_flops, 4 * B * D * H)


def test_several_inputs_by_name_in_a_mapping_and_as_examples() -> None:
    by_name = derive(lambda D, H: nn.Bilinear(D, D, H), {"input1": "B D", "input2": "B D"})
    assert same(
        derive(nn.Bilinear(5, 5, 3), {"input1": "B 5", "input2": "B 5"}).flops, by_name.flops.subs({D: 5, H: 3})
    )
    example = torch.zeros(2, 5, requires_grad=True)
    assert same(
        derive(nn.Bilinear(5, 5, 3), (example, "B 5"), (example, "B 5")).flops, by_name.flops.subs({D: 5, H: 3})
    )


def test_writing_in_place_costs_what_it_costs() -> None:
    class InPlace(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.product = nn.Linear(width, width)

        def forward(self, x: Tensor) -> Tensor:
            y = self.product(x)
            y.relu_()
            y[:, 0] = 0
            return y.add_(1)  # type: ignore[no-any-return]

    assert same(derive(lambda D: InPlace(D), "B D").flops, 2 * B * D**2)


def test_a_checkpointed_segment_is_computed_twice_and_keeps_only_its_input() -> None:
    def block(D: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(D, D, bias=False), nn.Tanh(), nn.Linear(D, D, bias=False), nn.Tanh())

    class Checkpointed(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.block = block(width)

        def forward(self, x: Tensor) -> Any:
            return checkpoint(self.block, x, use_reentrant=False)

    plain, twice = derive(block, "B D"), derive(lambda D: Checkpointed(D), "B D")
    assert same(twice.flops, plain.flops)
    assert same(twice.backward_flops, plain.backward_flops + plain.flops)
    assert same(plain.activation_bytes, 12 * B * D)  # what comes in, and both activations
    assert same(twice.activation_bytes, 4 * B * D)


def test_autocast_halves_what_is_kept() -> None:
    class Cast(nn.Module):
        def __init__(self, D: int, H: int) -> None:
            super().__init__()
            self.product = nn.Linear(D, H, bias=False)

        def forward(self, x: Tensor) -> Any:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.product(x)

    derived = derive(lambda D, H: Cast(D, H), "B D : data")
    assert same(derived.flops, 2 * B * D * H)
    # The input in half the bytes. Autograd does not keep the cast weight: the input needs no gradient.
    assert same(derived.activation_bytes, 2 * B * D)


def test_a_compiled_module_is_counted_on_its_original() -> None:
    compiled = torch.compile(nn.Sequential(nn.Linear(4, 8), nn.GELU()), backend="eager")
    derived = derive(compiled, "B 4")
    assert derived.name == "Sequential"
    assert same(derived.flops, 64 * B)


def test_code_that_looks_at_numbers_gets_some_and_the_reason_is_named() -> None:
    def ctc(scores: Tensor, labels: Tensor, lengths: Tensor, label_lengths: Tensor) -> Tensor:
        return functional.ctc_loss(scores.log_softmax(-1), labels, lengths, label_lengths)

    derived = derive(
        ctc,
        "T B 20",
        "B 3 : int < 19",
        lambda T, B: torch.full((B,), T),
        lambda B: torch.full((B,), 3),
    )
    assert same(derived.flops, 3 * 7 * B * T)  # 2 * 3 + 1 states, 3 operations a state and step
    assert "counted on real tensors, since fake ones gave" in derived.verdict
    assert "_ctc_loss" in derived.verdict


def test_what_a_sparse_matrix_stores_is_counted_by_real_ones() -> None:
    def ring(N: int) -> Tensor:
        nodes = torch.arange(N)
        return torch.sparse_coo_tensor(torch.stack([nodes, (nodes + 1) % N]), torch.ones(N), (N, N))

    derived = derive(torch.sparse.mm, ring, "N D")
    assert str(derived.flops) == "2*D*N"
    assert "since fake ones gave no way to count" in derived.verdict
    assert not derived.uncounted


def test_without_a_formula_numbers_are_counted() -> None:
    def bits(x: Tensor) -> Tensor:
        for _ in range(x.shape[0].bit_count()):
            x = x @ x
        return x

    derived = derive(bits, "D D")
    assert "no formula for" in derived.verdict
    with pytest.raises(PorismError, match="no formula was found for the forward FLOPs of bits"):
        _ = derived.flops
    assert derived.at(D=7)["flops"] == 3 * 2 * 7**3
    assert derived.at(D=8)["flops"] == 2 * 8**3
    assert derived.to_json()["flops"] is None


def test_heads_divide_the_width() -> None:
    by_head = derive(lambda A, D: nn.MultiheadAttention(A * D, A, bias=False), *("T B A*D",) * 3)
    assert str(by_head.parameters) == "4*A**2*D**2"
    in_multiples = derive(lambda D: nn.MultiheadAttention(D, 4, bias=False), *("T B D",) * 3, multiples={"D": 4})
    assert same(in_multiples.flops, 8 * B * T * D**2 + 4 * B * T**2 * D)
    assert "D in multiples of 4" in in_multiples.verdict
    with pytest.raises(PorismError, match="D=6 is no multiple of 4"):
        in_multiples.at(T=1, B=1, D=6)


def test_nothing_of_the_users_module_changes() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    net[0].weight.grad = torch.ones(4, 4)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    derive(net, "B 4")
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert torch.equal(net[0].weight.grad, torch.ones(4, 4))

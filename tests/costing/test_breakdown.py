"""A derived cost by submodule: the terms are what each does itself, and come to the whole."""

import pytest
from torch import Tensor, nn

from porism.costing.alphabet import B, D, V
from porism.costing.breakdown import REST, SHARED, terms_of
from porism.costing.derive import derive


class Tied(nn.Module):
    """An embedding whose weight is the readout's too, a stack of two layers, and a product of its own."""

    def __init__(self, V: int, D: int) -> None:
        super().__init__()
        self.words = nn.Embedding(V, D)
        self.stack = nn.ModuleList(nn.Linear(D, D, bias=False) for _ in range(2))
        self.readout = nn.Linear(D, V)
        self.readout.weight = self.words.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.words(tokens)
        for layer in self.stack:
            x = layer(x)
        y: Tensor = self.readout(x) @ x.new_ones(self.readout.out_features, 1)
        return y


@pytest.mark.parametrize("wrapped", [False, True])
def test_terms_by_submodule(wrapped: bool) -> None:
    cost = derive(lambda V, D: nn.Sequential(Tied(V, D)) if wrapped else Tied(V, D), "B : int < V")
    terms = terms_of(cost)
    # What wraps all others is no part of their names.
    assert {name: term.expand() for name, term in terms.flops.items()} == {
        "stack.* × 2": 4 * B * D**2,
        "readout": 2 * B * D * V,
        REST: 2 * B * V,
    }
    assert {name: term.expand() for name, term in terms.parameters.items()} == {
        "words": D * V,
        "stack.* × 2": 2 * D**2,
        "readout": D * V + V,
        SHARED: -D * V,
    }
    assert sum(terms.backward_flops.values()).expand() == cost.backward_flops.expand()

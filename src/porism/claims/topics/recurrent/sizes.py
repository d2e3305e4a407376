"""How large the parameters of the language model are, read off the model that is trained."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod
from typing import Protocol

import torch

from porism.claims.checks.compare import Case, compared
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.recurrent.elman.naive import LanguageModelWeights
from porism.tasks.language.model.build import build
from porism.tasks.language.model.recurrent import RecurrentModel
from porism.tasks.language.recipes import TABLE

Sizes = dict[str, tuple[int, ...]]
VOCABULARY_AND_WIDTHS = [(7, 3, 5), (2, 1, 1), (9, 7, 2)]


class InLayout(Protocol):
    """The sizes of the six parameters where vectors are rows, x W, or columns, W x."""

    def __call__(self, V: int, D: int, H: int, rows: bool) -> Sizes: ...


def model_of(V: int, D: int, H: int) -> RecurrentModel:
    """The model of the published table at other sizes."""
    model = build(replace(TABLE["table-01"], embedding_dim=D, hidden_size=H), V)
    assert isinstance(model, RecurrentModel)
    return model


def weights_of(model: RecurrentModel, B: int = 1) -> LanguageModelWeights:
    """Its parameters as the equations have them, for vectors that are rows; torch keeps I, H and U transposed."""
    named = dict(model.recurrent.named_parameters())
    bias = model.readout.bias
    assert bias is not None
    return LanguageModelWeights(
        L=model.embedding.weight,
        I=named["weight_ih_l0"].mT,
        H=named["weight_hh_l0"].mT,
        U=model.readout.weight.mT,
        b1=named["bias_ih_l0"],
        b2=bias,
        h0=torch.zeros(B, model.recipe.hidden_size),
    )


def sizes_in(V: int, D: int, H: int, rows: bool) -> Sizes:
    """Of the model's own parameters, a vector being a matrix of one row or of one column."""
    *parameters, _ = weights_of(model_of(V, D, H))._asdict().items()
    as_rows = {name: tuple(weight.shape) if weight.dim() == 2 else (1, len(weight)) for name, weight in parameters}
    return as_rows if rows else {name: size[::-1] for name, size in as_rows.items()}


def sizes_in_both_layouts(form: InLayout) -> Finding:
    """form(V, D, H, rows) against the model's parameters, for vectors that are rows and for columns."""
    return compared(
        case
        for (V, D, H), rows in product(VOCABULARY_AND_WIDTHS, (True, False))
        for case in _cases(V, D, H, rows, form(V, D, H, rows))
    )


def sizes_for_rows(form: Callable[[int, int, int], Sizes]) -> Finding:
    """form(V, D, H) against the model's parameters where vectors are rows."""
    return compared(case for V, D, H in VOCABULARY_AND_WIDTHS for case in _cases(V, D, H, True, form(V, D, H)))


def _cases(V: int, D: int, H: int, rows: bool, given: Sizes) -> list[Case]:
    where = f"V={V}, D={D}, H={H}, vectors as {'rows' if rows else 'columns'}"
    each = [(f"{name} at {where}", size, given[name]) for name, size in sizes_in(V, D, H, rows).items()]
    numbers = sum(parameter.numel() for parameter in model_of(V, D, H).parameters())
    return [*each, (f"parameters in all at {where}", numbers, sum(map(prod, given.values())))]


def _rows(V: int, D: int, H: int) -> Sizes:
    return {"L": (V, D), "I": (D, H), "H": (H, H), "U": (H, V), "b1": (1, H), "b2": (1, V)}


def _kept_by_torch(V: int, D: int, H: int) -> Sizes:
    return _rows(V, D, H) | {"I": (H, D), "U": (V, H)}


TOTAL = "V*D + D*H + H**2 + H*V + H + V"

CLAIMS: tuple[Statement, ...] = (
    Claim(
        id="000-01",
        topic="recurrent",
        where="I.1(a)",
        says="The embedding L is V by D, I is D by H, H is H by H, U is H by V, and b1 and b2 are rows of H and V.",
        verdict="holds under assumptions",
        precise="Vectors are rows that stand left of a matrix. Where they are columns all six sizes are turned round.",
        formulas=(TOTAL,),
        judge=sizes_in_both_layouts,
        stated=lambda V, D, H, rows: _rows(V, D, H),
        corrected=lambda V, D, H, rows: ({name: size if rows else size[::-1] for name, size in _rows(V, D, H).items()}),
    ),
    Claim(
        id="001-01",
        topic="recurrent",
        where="1(a)",
        says="With vectors as rows L is V by D, I is D by H, H is H by H, U is H by V, b1 has H numbers and b2 V.",
        verdict="holds",
        formulas=(TOTAL,),
        judge=sizes_for_rows,
        stated=_rows,
        rival=_kept_by_torch,
    ),
)

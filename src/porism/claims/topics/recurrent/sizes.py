"""How large the parameters of the language model are, read off the model that is trained."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

import torch

from porism.claims.checks.compare import Case, compared
from porism.claims.claim import Claim, Finding, Statement
from porism.layers.recurrent.elman.naive import LanguageModelWeights
from porism.tasks.language.model.build import build
from porism.tasks.language.model.recurrent import RecurrentModel
from porism.tasks.language.recipes import TABLE

Sizes = dict[str, tuple[int, ...]]
VOCABULARY_AND_WIDTHS = [(7, 3, 5), (2, 1, 1), (9, 7, 2)]


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


def sizes_for_rows(form: Callable[[int, int, int], Sizes]) -> Finding:
    """form(V, D, H) against the model's parameters where vectors are rows, a vector being a matrix of one row."""
    return compared(case for sizes in VOCABULARY_AND_WIDTHS for case in _cases(*sizes, form(*sizes)))


def _cases(V: int, D: int, H: int, given: Sizes) -> list[Case]:
    where = f"V={V}, D={D}, H={H}"
    model = model_of(V, D, H)
    *parameters, _ = weights_of(model)._asdict().items()
    sizes = {name: tuple(weight.shape) if weight.dim() == 2 else (1, len(weight)) for name, weight in parameters}
    numbers = sum(parameter.numel() for parameter in model.parameters())
    return [
        *((f"{name} at {where}", size, given[name]) for name, size in sizes.items()),
        (f"parameters in all at {where}", numbers, sum(map(prod, given.values()))),
    ]


def _rows(V: int, D: int, H: int) -> Sizes:
    return {"L": (V, D), "I": (D, H), "H": (H, H), "U": (H, V), "b1": (1, H), "b2": (1, V)}


def _kept_by_torch(V: int, D: int, H: int) -> Sizes:
    return _rows(V, D, H) | {"I": (H, D), "U": (V, H)}


TOTAL = "V*D + D*H + H**2 + H*V + H + V"


def _six_sizes(id: str, where: str, says: str) -> Statement:
    return Claim(
        id=id,
        topic="recurrent",
        where=where,
        says=says,
        verdict="holds",
        formulas=(TOTAL,),
        judge=sizes_for_rows,
        stated=_rows,
        rival=_kept_by_torch,
    )


CLAIMS: tuple[Statement, ...] = (
    _six_sizes(
        "000-01",
        "I.1(a)",
        "The embedding L is V by D, I is D by H, H is H by H, U is H by V, and b1 and b2 are rows, 1 by H and 1 by V.",
    ),
    _six_sizes(
        "001-01",
        "1(a)",
        "With vectors as rows L is V by D, I is D by H, H is H by H, U is H by V, b1 has H numbers and b2 V.",
    ),
)

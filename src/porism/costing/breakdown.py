"""A derived cost as named terms: what each submodule does itself, without those inside it."""

from sympy import Expr, Integer, piecewise_fold

from porism.costing.cost import Cost
from porism.costing.module_row import ModuleRow
from porism.costing.table import TableRow, folded
from porism.costing.terms import NamedTerms, Terms

REST = "elsewhere"
"""The name of what no submodule does."""
SHARED = "shared weights, counted once"


def terms_of(cost: Cost) -> Terms:
    """Parameters and FLOPs of both passes by submodule; equal submodules of a stack are one term.

    >>> net = porism.cost(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.Linear(8, 2)), "B 8")
    >>> terms_of(net).flops
    {'* × 2': 256*B, '3': 32*B}
    """
    return Terms(**{kind: _terms(cost, kind) for kind in ("parameters", "flops", "backward_flops")})


def _terms(cost: Cost, kind: str) -> NamedTerms:
    total = cost.formula(kind)
    own = {row.path: formula for row in cost.rows[1:] if (formula := _own(cost, row, kind)) is not None}
    own = {path: formula for path, formula in own.items() if formula != 0}
    prefix = _shared_prefix(list(own))
    rows = [
        TableRow(path.removeprefix(prefix), "", (formula,))
        for path, formula in own.items()
        # What wraps all the others does what no submodule does.
        if not prefix.startswith(f"{path}.")
    ]
    terms: NamedTerms = {}
    for row in folded(REST, rows):
        (formula,) = row.formulas
        assert formula is not None
        name = row.text.replace(" ()", "")
        terms[name] = terms.get(name, Integer(0)) + row.number * formula
    # Folded: what is zero in every branch of the formulas is zero.
    rest = piecewise_fold((total - sum(terms.values(), start=Integer(0))).expand())
    if rest != 0:
        # A weight that two submodules share stands in both rows.
        terms[SHARED if kind == "parameters" and _is_negative(rest) else REST] = rest
    return terms


def _own(cost: Cost, row: ModuleRow, kind: str) -> Expr | None:
    """What a submodule does beside what is inside it; None where a formula is missing."""
    formulas = [row.formula(kind, cost.conventions)]
    formulas += [
        other.formula(kind, cost.conventions) for other in cost.rows if other.path.rpartition(".")[0] == row.path
    ]
    whole, *inside = [formula for formula in formulas if formula is not None] or [Integer(0)]
    if len(inside) + 1 < len(formulas):
        return None
    own = whole - sum(inside, start=Integer(0))
    return whole if not inside else own.expand()


def _is_negative(formula: Expr) -> bool:
    return bool(formula.subs(dict.fromkeys(formula.free_symbols, 1)) < 0)


def _shared_prefix(paths: list[str]) -> str:
    """The submodules that wrap all the others, with a dot after: `model.`."""
    shared = ""
    while True:
        inside = [path.removeprefix(shared) for path in paths if path.startswith(shared)]
        heads = {path.partition(".")[0] for path in inside}
        if len(heads) != 1 or len(inside) == 1:
            return shared
        shared += f"{heads.pop()}."

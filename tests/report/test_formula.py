"""Formulas are set as mathematics, and what is none stays text."""

import re

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from porism.report.formula import letters, mathml


def spoken(formula: str) -> str:
    """The marks of a formula in a row, powers and fractions made visible."""
    markup = mathml(formula)
    assert markup.startswith("<math>")
    for tag, sign in (("</mrow><mrow>", "^" if "<msup>" in markup else "/"), ('<mspace width="0.17em"/>', " ")):
        markup = markup.replace(tag, sign)
    return re.sub(r"<[^>]*>", "", markup)


@pytest.mark.parametrize(
    ("formula", "marks"),
    [
        ("H", "H"),
        ("H**2", "H^2"),
        ("2*D*H", "2 D H"),
        ("H*(D + H + 1)", "H (D+H+1)"),
        ("(D + 1)*(H + 1)", "(D+1) (H+1)"),
        ("(D + H)**2", "(D+H)^2"),
        ("(D**2)**3", "(D^2)^3"),
        ("2*3*V", "2·3 V"),
        ("D - (H - 1)", "D−(H−1)"),
        ("-D", "−D"),
        ("D*(-H)", "D (−H)"),
        ("D/2", "D/2"),
        ("10000*D", "10,000 D"),
        ("ceiling(T*W)", "⌈T W⌉"),
        ("Min(T, W)", "min(T,W)"),
        ("sqrt(D)", "D"),
        ("d_i*d_j", "di dj"),
        ("E*N", "E N"),
    ],
)
def test_a_formula_is_set(formula: str, marks: str) -> None:
    assert spoken(formula) == marks


@pytest.mark.parametrize(
    "text", ["", "D +", "D < H", "__import__('os').system('x')", "<b>bold</b>", "True", "'D'", "f(x=1)"]
)
def test_what_is_no_formula_stays_text(text: str) -> None:
    markup = mathml(text)
    assert markup.startswith("<code>")
    assert "<b>" not in markup


def test_a_bottomless_formula_stays_text() -> None:
    assert mathml("(" * 5000 + "D" + ")" * 5000).startswith("<code>")


D, H, V = sympy.symbols("D H V", positive=True, integer=True)
formulas = st.recursive(
    st.sampled_from([D, H, V, sympy.Integer(1), sympy.Integer(2), sympy.Integer(63)]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] + pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] * pair[1]),
        inner.map(lambda base: base**2),
    ),
    max_leaves=7,
)


@given(formulas)
def test_what_is_set_is_what_was_meant(formula: sympy.Expr) -> None:
    """Read back as a formula, the marks come to the same number."""
    text = mathml(str(formula))
    for tag, sign in (
        ("<msup><mrow>", "(("),
        ("</mrow><mrow>", ")**("),
        ("</mrow></msup>", "))"),
        ('<mspace width="0.17em"/>', "*"),
    ):
        text = text.replace(tag, sign)
    marks = re.sub(r"<[^>]*>", "", text).replace("·", "*").replace(",", "").replace("−", "-")
    sizes = {"D": 7, "H": 63, "V": 2}
    assert eval(marks, {}, sizes) == formula.subs({D: 7, H: 63, V: 2})


def test_branches_are_set_as_cases() -> None:
    set_ = mathml("Piecewise((2*H, H >= V), (H*V, True))")
    assert set_.startswith('<math><mrow><mo>{</mo><mtable columnalign="left"><mtr><mtd><mn>2</mn>')
    assert "<mtext>if\N{NO-BREAK SPACE}</mtext><mi>H</mi><mo>≥</mo><mi>V</mi>" in set_
    assert "<mtext>else</mtext>" in set_


@pytest.mark.parametrize("formula", ["-2*D*H", "-D/2", "-2*D*(H + 1)/3"])
def test_a_product_with_a_minus_has_no_brackets_around_its_number(formula: str) -> None:
    set_ = mathml(formula)
    assert set_.startswith("<math><mo>\N{MINUS SIGN}</mo>")
    assert set_.count("<mo>(</mo>") == formula.count("(")
    assert mathml(f"V - {formula[1:]}").removeprefix("<math><mi>V</mi>") == set_.removeprefix("<math>")
    assert "<mo>(</mo><mo>\N{MINUS SIGN}</mo>" in mathml(f"V*({formula})"), "inside a product they stay"


def test_letters() -> None:
    assert letters("2*H*(D + H) + ceiling(T/W)") == {"H", "D", "T", "W", "ceiling"}

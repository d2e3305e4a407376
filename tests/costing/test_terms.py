"""A cost is a sum of named terms in the alphabet."""

import pytest
from sympy import Expr, Integer, ceiling, floor, simplify

from porism.costing.alphabet import SYMBOLS, A, B, D, H, T
from porism.costing.letters import ALPHABET
from porism.costing.terms import Terms
from porism.errors import CostError, RecipeError

LINEAR = Terms(
    parameters={"weight": D * H, "bias": H},
    flops={"product": 2 * B * T * D * H},
    backward_flops={"input": 2 * B * T * D * H, "weight": 2 * B * T * D * H},
    saved={"x": B * T * D},
)


def test_the_alphabet_has_one_positive_whole_symbol_a_letter() -> None:
    assert list(SYMBOLS) == list(ALPHABET)
    assert all(symbol.name == letter for letter, symbol in SYMBOLS.items())
    assert all(symbol.is_integer and symbol.is_positive for symbol in SYMBOLS.values())
    assert SYMBOLS["A"] is A
    assert SYMBOLS["T"] is T


def test_key_heads_key_length_and_layers_have_letters() -> None:
    G, S, L = (SYMBOLS[letter] for letter in "GSL")
    keys = Terms(parameters={"key": L * D * G * D}, saved={"k": B * G * S * D})
    assert keys.at(B=2, D=3, G=5, S=7, L=11) == {"parameters": 495, "flops": 0, "backward_flops": 0, "saved": 210}


def test_total_is_the_factored_sum() -> None:
    assert str(LINEAR.total("parameters")) == "H*(D + 1)"
    assert LINEAR.total("backward_flops") == 4 * B * T * D * H


def test_nothing_costs_zero() -> None:
    assert Terms().total("flops") == Integer(0)
    assert Terms().at() == {"parameters": 0, "flops": 0, "backward_flops": 0, "saved": 0}


def test_at_gives_plain_integers() -> None:
    at = LINEAR.at(B=2, T=3, D=7, H=63)
    assert at == {"parameters": 504, "flops": 5292, "backward_flops": 10584, "saved": 42}
    assert all(type(value) is int for value in at.values())


def test_at_is_exact_beyond_floating_point() -> None:
    assert Terms(flops={"all": B**3}).at(B=10**9 + 1)["flops"] == (10**9 + 1) ** 3


def test_a_letter_no_term_needs_changes_nothing() -> None:
    assert LINEAR.at(B=2, T=3, D=7, H=63, V=5) == LINEAR.at(B=2, T=3, D=7, H=63)


def test_a_sum_adds_terms_of_the_same_name_and_keeps_the_others() -> None:
    both = LINEAR + Terms(parameters={"bias": 2 * H, "gain": D}, saved={"x": B})
    assert both.parameters == {"weight": D * H, "bias": 3 * H, "gain": D}
    assert both.saved == {"x": B * T * D + B}
    assert LINEAR.parameters["bias"] == H


def test_costs_add_up_with_sum() -> None:
    assert simplify(sum([LINEAR, LINEAR], Terms()).total("flops") - 2 * LINEAR.total("flops")) == 0


def test_a_prefix_tells_parts_apart() -> None:
    both = LINEAR.with_prefix("first") + LINEAR.with_prefix("second")
    assert list(both.parameters) == ["first.weight", "first.bias", "second.weight", "second.bias"]
    assert both.total("saved") == 2 * LINEAR.total("saved")


def test_plain_numbers_are_terms() -> None:
    assert Terms(parameters={"scale": 1}).at()["parameters"] == 1


@pytest.mark.parametrize(
    ("letters", "message"),
    [
        ({"B": 1, "T": 1, "D": 1}, r"letters without a number: H \(hidden width\)\. Give H=\.\.\. too\."),
        ({"D": 1, "H": 1}, r"letters without a number: B \(batch\), T \(length\)\. Give B="),
        ({"Q": 3}, r"Q is no letter of the alphabet\. Choose from B, T, D, H"),
        ({"B": 0}, r"B=0 is no size\. Give a whole number from 1 on\."),
        ({"B": 1.5}, r"B=1\.5 is no size"),
        ({"B": True}, r"B=True is no size"),
    ],
)
def test_bad_letters_are_named(letters: dict[str, int], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        LINEAR.at(**letters)


def test_a_half_is_no_count() -> None:
    with pytest.raises(RecipeError, match=r"flops is 7/2, which is no whole number"):
        Terms(flops={"half": T / 2}).at(T=7)


class Found(dict[str, Expr]):
    def formula(self, kind: str) -> Expr:
        return self[kind]


def test_terms_are_held_against_what_the_code_costs() -> None:
    found = Found({kind: LINEAR.total(kind) for kind in LINEAR.kinds()})
    LINEAR.check(found)
    LINEAR.check(Found(found | {"saved": D}))
    halves = Terms(flops={"product": 2 * (floor(T / 2) + ceiling(T / 2))})
    halves.check(Found(flops=2 * T), kinds=["flops"])
    with pytest.raises(CostError, match=r"flops by hand is 2\*B\*D\*H\*T, in the code B\*D\. They differ at B="):
        LINEAR.check(Found(found | {"flops": B * D}))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(RecipeError, match=r"no kind 'bytes'\. Choose from parameters, flops, backward_flops, saved\."):
        LINEAR.total("bytes")

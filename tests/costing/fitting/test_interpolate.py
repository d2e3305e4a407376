"""A formula is exact wherever it is looked at, or it is not given."""

from collections.abc import Callable, Mapping
from math import comb
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy import Expr, Piecewise, Symbol, expand, floor, sympify

from porism.costing.alphabet import SYMBOLS, B, C, D, H, T, W, X, Y
from porism.costing.fitting.interpolate import Fitted, interpolate
from porism.costing.fitting.samples import Limits
from porism.errors import RecipeError

pytestmark = pytest.mark.sample(24)

M = SYMBOLS["M"]


class Counted:
    """A measure of one or several quantities that refuses the same sizes twice."""

    def __init__(self, count: Callable[..., Any]) -> None:
        self.count = count
        self.requested: list[dict[str, int]] = []

    def __call__(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        assert sizes not in self.requested
        self.requested.append(dict(sizes))
        counted = self.count(**sizes)
        return counted if isinstance(counted, dict) else {"count": counted}


def fit(count: Callable[..., Any], letters: str, **options: Any) -> tuple[Fitted, Counted]:
    measure = Counted(count)
    return interpolate(measure, list(letters), **options)["count"], measure


def at(formula: Expr, sizes: Mapping[str, int]) -> Any:
    return formula.subs({letter: sizes[letter.name] for letter in formula.free_symbols})


LETTERS = ("B", "T", "D", "H")


@st.composite
def polynomials(draw: st.DrawFn) -> dict[tuple[int, ...], int]:
    """Whole weights of products of binomials: every integer-valued polynomial is such a sum, and T(T-1)/2 is one."""
    letters = draw(st.integers(1, 4))
    exponents = st.tuples(*[st.integers(0, 4)] * letters).filter(lambda powers: sum(powers) <= 4)
    return draw(st.dictionaries(exponents, st.integers(-20, 20).filter(bool), min_size=1, max_size=8))


@given(polynomials())
@settings(max_examples=60, deadline=None)
def test_integer_valued_polynomials_are_recovered(terms: dict[tuple[int, ...], int]) -> None:
    letters = LETTERS[: len(next(iter(terms)))]

    def count(**sizes: int) -> int:
        total = 0
        for powers, weight in terms.items():
            for letter, power in zip(letters, powers, strict=True):
                weight *= comb(sizes[letter], power)
            total += weight
        return total

    def binomial(letter: str, power: int) -> Expr:
        product = sympify(1)
        for i in range(power):
            product = product * (SYMBOLS[letter] - i) / (i + 1)
        return product

    expected = sympify(0)
    for powers, weight in terms.items():
        term = sympify(weight)
        for letter, power in zip(letters, powers, strict=True):
            term *= binomial(letter, power)
        expected += term
    fitted, measure = fit(count, "".join(letters))
    assert fitted.formula is not None, fitted.reason
    assert expand(fitted.formula - expected) == 0
    assert len(measure.requested) <= 170
    assert all(at(fitted.formula, sizes) == count(**sizes) for sizes in fitted.checked)


@pytest.mark.parametrize(
    ("count", "letters", "formula", "calls"),
    [
        (lambda B, T, D, H: 8 * B * H * T * (D + H), "BTDH", 8 * B * H * T * (D + H), 11),
        (lambda B, T, D, M: 4 * B * D * T * (2 * D + M + T), "BTDM", 4 * B * D * T * (2 * D + M + T), 12),
        (lambda B, T, D, H: (B + 2 * T + 3 * D - H + 1) ** 4, "BTDH", (B + 2 * T + 3 * D - H + 1) ** 4, 80),
        (lambda B, T, D, H: D * H + H, "BTDH", H * (D + 1), 10),
        (lambda T: T * (T + 1) // 2, "T", T * (T + 1) / 2, 6),
        (lambda B, T: 0, "BT", sympify(0), 7),
        (lambda T, D: (T - 11) * (D - 11), "TD", (T - 11) * (D - 11), 16),
        # At the first sizes, where B is 3 and T is 11, these are multiples of T or B and are not elsewhere.
        (lambda B, T: comb(B, 3) * T + comb(B, 4), "BT", B * (B - 2) * (B - 1) * (B + 4 * T - 3) / 24, 18),
        (lambda B, T: B * T + 5 * (T - 11), "BT", B * T + 5 * T - 55, 16),
        (lambda B, T: B * T**2 + (T - 11) ** 2, "BT", B * T**2 + T**2 - 22 * T + 121, 19),
    ],
)
def test_polynomials_come_factored_at_few_sizes(
    count: Callable[..., int], letters: str, formula: Expr, calls: int
) -> None:
    fitted, measure = fit(count, letters)
    assert fitted.formula == formula
    assert fitted.reason == ""
    # And once at the smallest size of each letter.
    # One more with all letters small.
    assert len(measure.requested) <= calls + len(letters) + 1


def test_held_out_sizes_lie_well_outside() -> None:
    fitted, measure = fit(lambda B, T: B * T**2, "BT")
    assert len(fitted.checked) >= 2
    first = measure.requested[0]
    assert any(all(sizes[letter] >= 5 * first[letter] for letter in "BT") for sizes in fitted.checked)
    assert any(sizes["B"] < first["B"] and sizes["T"] < first["T"] for sizes in fitted.checked)


def test_constants_need_no_letters() -> None:
    assert fit(lambda: 7, "")[0].formula == 7


def test_a_letter_outside_the_alphabet_gets_a_symbol_of_its_own() -> None:
    fitted = interpolate(lambda sizes: {"q": 3 * sizes["rank"] * sizes["D"]}, ["rank", "D"])["q"]
    assert fitted.formula == 3 * D * Symbol("rank", integer=True, positive=True)


def test_quantities_share_their_sizes() -> None:
    def count(B: int, T: int, D: int) -> dict[str, int]:
        return {f"{layer}.flops": 2 * B * T * D * D for layer in range(50)} | {"saved": B * T * D, "odd": T.bit_count()}

    measure = Counted(count)
    fitted = interpolate(measure, ["B", "T", "D"])
    assert {fitted[f"{layer}.flops"].formula for layer in range(50)} == {2 * B * T * D**2}
    assert fitted["saved"].formula == B * T * D
    assert fitted["odd"].formula is None
    alone = Counted(lambda **sizes: {name: n for name, n in count(**sizes).items() if name != "odd"})
    interpolate(alone, ["B", "T", "D"])
    assert len(alone.requested) <= 20


def test_quantities_that_agree_by_chance_at_first_are_told_apart() -> None:
    # 33 at the first sizes, both of them.
    fitted = interpolate(Counted(lambda B, T: {"a": B * T, "b": 33 + 0 * B}), ["B", "T"])
    assert (fitted["a"].formula, fitted["b"].formula) == (B * T, 33)


@pytest.mark.parametrize("kernel", [1, 3, 7])
@pytest.mark.parametrize("stride", [2, 3, 7, 16])
def test_strides(kernel: int, stride: int) -> None:
    fitted, measure = fit(lambda B, T, C: B * C**2 * ((T - kernel) // stride + 1), "BTC")
    assert fitted.formula is not None, fitted.reason
    expected = B * C**2 * (floor((T - kernel) / sympify(stride)) + 1)
    assert all(at(fitted.formula - expected, {"B": 2, "C": 3, "T": size}) == 0 for size in range(kernel, 200))
    assert len(measure.requested) <= 80


@pytest.mark.parametrize("multiple", [2, 8, 16, 24, 64, 128])
def test_padding_to_a_multiple(multiple: int) -> None:
    def padded(size: int) -> int:
        return -(-size // multiple) * multiple

    fitted, measure = fit(lambda B, T: B * padded(T) * T, "BT")
    assert fitted.formula is not None, fitted.reason
    assert all(at(fitted.formula, {"B": 5, "T": T}) == 5 * padded(T) * T for T in range(1, 500))
    assert len(measure.requested) <= 100


def test_strides_in_two_letters_and_in_a_row() -> None:
    rows, _ = fit(lambda B, C, Y, X: 18 * B * C * ((Y - 3) // 2 + 1) * ((X - 5) // 3 + 1), "BCYX")
    assert rows.formula == 18 * B * C * (floor((Y + 1) / sympify(2)) - 1) * (floor((X + 1) / sympify(3)) - 1)

    def two_layers(B: int, T: int) -> int:
        once = (T - 3) // 2 + 1
        return B * once + 5 * B * ((once - 3) // 2 + 1)

    stacked, _ = fit(two_layers, "BT")
    assert stacked.formula is not None, stacked.reason
    assert all(at(stacked.formula, {"B": 3, "T": T}) == two_layers(3, T) for T in range(3, 300))


@pytest.mark.parametrize(
    ("count", "letters", "formula"),
    [
        (lambda B, T: B * T if T < 40 else B * T**2, "BT", Piecewise((B * T, T < 40), (B * T**2, True))),
        (lambda B, T: B * T if T < 8 else B * T**2, "BT", Piecewise((B * T, T < 8), (B * T**2, True))),
        (lambda B, T, W: B * max(0, T - W), "BTW", Piecewise((0, T <= W), (B * (T - W), True))),
        (lambda B, T, W: B * T * min(T, W), "BTW", Piecewise((B * T**2, T <= W), (B * T * W, True))),
        (lambda B, W, T: B * max(0, T - W), "BWT", Piecewise((B * (T - W), W <= T), (0, True))),
    ],
)
def test_thresholds(count: Callable[..., int], letters: str, formula: Expr) -> None:
    fitted, measure = fit(count, letters)
    assert fitted.formula == formula
    # Both sides are confirmed.
    assert len({formula.args[0][1].subs(at_sizes(sizes)) for sizes in fitted.checked}) == 2
    assert len(measure.requested) <= 80


def at_sizes(sizes: Mapping[str, int]) -> dict[Symbol, int]:
    return {SYMBOLS[letter]: size for letter, size in sizes.items()}


@pytest.mark.parametrize(
    "count",
    [
        lambda B, T: B * T.bit_count(),
        lambda B, T: T ^ B,
        lambda B, T: int((B * T) ** 0.5),
        lambda B, T: B**6,
        lambda B, T: 2**B + T,
        lambda B, T: B * T if B * T < 500 else B,
        lambda B, T: sum(1 for divisor in range(1, T + 1) if T % divisor == 0),
        lambda B, T: hash((B, T)) % 1000,
    ],
)
def test_no_formula_rather_than_a_wrong_one(count: Callable[..., int]) -> None:
    fitted, _ = fit(count, "BT")
    assert fitted.formula is None
    assert fitted.checked == ()
    assert "\n" not in fitted.reason
    assert fitted.reason


def test_a_remainder_is_exact_or_nothing() -> None:
    fitted, _ = fit(lambda T: T * (T - 1) % 7, "T")
    if fitted.formula is not None:
        assert all(at(fitted.formula, {"T": T}) == T * (T - 1) % 7 for T in range(1, 300))


def test_a_bump_at_any_size_that_was_asked_for_is_never_smoothed_over() -> None:
    _, measure = fit(lambda B, T: B * T**2, "BT")
    for bump in measure.requested:
        fitted, _ = fit(lambda bump=bump, **sizes: sizes["B"] * sizes["T"] ** 2 + (sizes == bump), "BT")
        excluded = any(bump[letter] < size for letter, size in fitted.least.items()) or any(
            not low <= bump[letter] <= high for letter, (low, high) in fitted.ranges.items()
        )
        assert excluded or fitted.formula is None or at(fitted.formula, bump) == bump["B"] * bump["T"] ** 2 + 1


@pytest.mark.parametrize(
    ("count", "least"),
    [
        (lambda B, T: B * T, {}),
        (lambda B, T: B * T if B > 1 else 7 * T, {"B": 2}),
        (lambda B, T: B * T if B > 1 and T > 4 else 0, {"B": 2, "T": 5}),
        # Nothing is known of a size that raises.
        (lambda B, T: B * T * (1 // (B > 1)), {}),
    ],
)
def test_smallest_sizes_that_are_no_case_of_the_formula_are_told_of(
    count: Callable[..., int], least: dict[str, int]
) -> None:
    fitted, _ = fit(count, "BT")
    assert fitted.formula == B * T
    assert fitted.least == least


def test_sizes_that_raise_are_passed_over() -> None:
    def heads(B: int, T: int, D: int, A: int) -> int:
        if D % A:
            raise ValueError("width does not split into heads")
        return B * T * D * (D + T) + B * A * T**2

    A = SYMBOLS["A"]
    fitted, _ = fit(heads, "BTDA", limits=Limits(step={"D": 60}))
    assert fitted.formula is not None
    assert expand(fitted.formula - (B * T * D * (D + T) + B * A * T**2)) == 0

    def eights(B: int, D: int) -> int:
        if D % 8:
            raise ValueError("width is no multiple of 8")
        return B * D

    assert fit(eights, "BD")[0].formula == B * D


def test_steps_are_kept() -> None:
    fitted, measure = fit(lambda B, T: B * (T // 4), "BT", limits=Limits(step={"T": 4}))
    assert fitted.formula == B * T / 4
    assert all(sizes["T"] % 4 == 0 for sizes in measure.requested)


def test_a_letter_with_a_largest_stays_within_it() -> None:
    L = Symbol("L", integer=True, positive=True)
    limits = Limits(largest={"L": 6})
    fitted, measure = fit(lambda B, T, L: B * T * (3 * L + T), "BTL", limits=limits)
    assert fitted.formula == B * T * (3 * L + T)
    assert {sizes["L"] for sizes in measure.requested} == {2, 3, 4, 5, 6}
    assert {sizes["L"] for sizes in fitted.checked} == {4, 5, 6}
    cubic, _ = fit(lambda B, L: B * L**3 + L, "BL", limits=limits)
    assert cubic.formula == L * (B * L**2 + 1)
    # At the first sizes a cube of L alone. Five sizes of L are too few for all powers below it.
    hidden, _ = fit(lambda B, L: B * L**3 + (B - 5) * (L + 7), "BL", limits=Limits(largest={"L": 5}))
    assert hidden.formula is None
    assert hidden.reason
    halved, _ = fit(lambda B, L: B * (L // 2), "BL", limits=limits)
    assert halved.formula is None
    both, measure = fit(lambda L, K: 7 + L * K, "LK", limits=Limits(largest={"L": 6, "K": 10}, step={"K": 2}))
    assert both.formula == L * SYMBOLS["K"] + 7
    assert all(sizes["K"] in (2, 4, 6, 8, 10) and sizes["L"] <= 6 for sizes in measure.requested)


def test_what_a_larger_stack_adds_costs_no_counts() -> None:
    def layers(B: int, L: int) -> dict[str, int]:
        return {"all": B * L} | {f"layer {layer}": B * (layer + 1 < L) for layer in range(L)}

    limits = Limits(largest={"L": 6})
    measure = Counted(layers)
    fitted = interpolate(measure, ["B", "L"], limits=limits)
    assert fitted["all"].formula == B * Symbol("L", integer=True, positive=True)
    assert fitted["layer 0"].formula == B
    assert fitted["layer 5"].formula is None
    assert len(measure.requested) <= 11


def test_many_letters_need_few_counts() -> None:
    A, T, V = SYMBOLS["A"], SYMBOLS["T"], SYMBOLS["V"]

    def transformer(B: int, T: int, A: int, D: int, H: int, V: int) -> dict[str, int]:
        width = A * D
        return {
            "parameters": 4 * width**2 + 3 * width * H + 2 * V * width,
            "flops": 2 * B * T * width * (4 * width + 3 * H + 2 * T + V),
        }

    measure = Counted(transformer)
    fitted = interpolate(measure, list("BTADHV"))
    assert fitted["parameters"].formula == A * D * (4 * A * D + 3 * H + 2 * V)
    assert fitted["flops"].formula == 2 * A * B * D * T * (4 * A * D + 3 * H + 2 * T + V)
    assert len(measure.requested) <= 33


def test_the_start_is_kept() -> None:
    fitted, measure = fit(lambda B, T: B * T, "BT", start={"B": 6, "T": 50})
    assert fitted.formula == B * T
    assert measure.requested[0] == {"B": 6, "T": 50}


def test_the_first_error_is_raised_when_every_size_raises() -> None:
    numbers = iter(range(1000))

    def broken(sizes: Mapping[str, int]) -> Mapping[str, int]:
        raise ZeroDivisionError(f"call {next(numbers)}")

    with pytest.raises(ZeroDivisionError, match="call 0$"):
        interpolate(broken, ["B", "T"])


def test_a_quantity_counted_at_some_sizes_only_has_no_formula() -> None:
    measure = Counted(lambda T: {"a": T} | ({"b": T} if T < 100 else {"c": T}))
    fitted = interpolate(measure, ["T"])
    assert fitted["a"].formula == T
    assert (fitted["b"].formula, fitted["c"].formula) == (None, None)
    assert fitted["b"].reason == fitted["c"].reason == "it is counted at some sizes and not at others"
    # No search where no size can be measured.
    assert len(measure.requested) <= 6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"letters": ["B", "B"]}, "cost: the letters B, B name one twice. Name each letter once."),
        (
            {"letters": ["B", "T"], "start": {"B": 2}},
            "cost: sizes to start from came for B. Give one for each of B, T.",
        ),
        ({"letters": ["B"], "start": {"B": 0}}, "cost: B=0 is no size. Give a whole number from 1 on."),
        ({"letters": ["B"], "degree": -1}, "cost: a degree of -1 is none. Give a whole number from 0 on."),
    ],
)
def test_bad_requests(options: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        interpolate(lambda sizes: {"q": 1}, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"step": {"B": 0}}, "cost: B=0 is no size. Give a whole number from 1 on."),
        ({"largest": {"L": 0}}, "cost: L=0 is no size. Give a whole number from 1 on."),
        (
            {"largest": {"L": 4}},
            "cost: L up to 4 leaves too few sizes to find a formula and confirm it. Let it go to 5 or further.",
        ),
        (
            {"largest": {"L": 14}, "step": {"L": 3}},
            "cost: L up to 14 leaves too few sizes to find a formula and confirm it. Let it go to 15 or further.",
        ),
    ],
)
def test_bad_limits(limits: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Limits(**limits)
    assert str(caught.value) == message

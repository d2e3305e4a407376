"""The page's arithmetic and sentences, run in the browser and held against sympy and against porism.cost."""

import random
import re
from typing import TYPE_CHECKING, Any

import pytest
import sympy
from tests.web.rooms.conftest import STATIC

from porism.costing.alphabet import SYMBOLS
from porism.costing.predicting.crossover import changes
from porism.report import numbers
from porism.web.scripts import joined

if TYPE_CHECKING:
    from playwright.sync_api import Page

Tree = Any

COMPARED = {"<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge, "==": sympy.Eq, "!=": sympy.Ne}
LETTERS = "BTDHAW"


def value_of(tree: Tree, at: dict[str, int]) -> Any:
    """What sympy makes of a tree of numbers; None where it has no value."""
    if isinstance(tree, bool):
        return sympy.true if tree else sympy.false
    if isinstance(tree, int):
        return sympy.Integer(tree)
    if isinstance(tree, str):
        return sympy.Integer(at[tree]) if tree in at else sympy.Rational(tree)
    operator, *branches = tree
    if operator == "if":
        pairs = [(value_of(branches[i], at), branches[i + 1]) for i in range(0, len(branches) - 1, 2)]
        for holds, branch in pairs:
            if holds is None or holds:
                return None if holds is None else value_of(branch, at)
        return value_of(branches[-1], at) if len(branches) % 2 else None
    if operator in ("and", "or"):  # what the first one decides, the others do not change
        for branch in branches:
            holds = value_of(branch, at)
            if holds is None or bool(holds) == (operator == "or"):
                return holds
        return sympy.true if operator == "and" else sympy.false
    values = [value_of(branch, at) for branch in branches]
    if any(value is None for value in values):
        return None
    if operator in COMPARED:
        return COMPARED[operator](*values)
    if operator == "^":
        return None if values[0] == 0 and values[1] < 0 else values[0] ** values[1]
    if operator in ("/", "mod") and values[1] == 0:
        return None
    functions = {
        "+": lambda *parts: sympy.Add(*parts),
        "*": lambda *parts: sympy.Mul(*parts),
        "/": lambda a, b: a / b,
        "floor": sympy.floor,
        "ceil": sympy.ceiling,
        "mod": sympy.Mod,
        "max": sympy.Max,
        "min": sympy.Min,
        "abs": sympy.Abs,
        "not": sympy.Not,
    }
    return functions[operator](*values)


def random_tree(draw: random.Random, depth: int) -> Tree:
    if depth == 0 or draw.random() < 0.15:
        number = draw.choice(
            [draw.randint(-9, 9), draw.randint(1, 2**52), f"{draw.randint(2**53, 2**80)}", "3/4", "-5/7"]
        )
        return number if draw.random() < 0.3 else draw.choice(LETTERS)

    def part() -> Tree:
        return random_tree(draw, depth - 1)

    operator = draw.choice(["+", "*", "+", "*", "/", "^", "floor", "ceil", "mod", "max", "min", "abs", "if"])
    if operator in ("floor", "ceil", "abs"):
        return [operator, part()]
    if operator in ("/", "mod"):
        return [operator, part(), part()]
    if operator == "^":
        return [operator, part(), draw.choice([-2, -1, 0, 1, 2, 3])]
    if operator == "if":
        condition: Tree = [draw.choice([*COMPARED]), part(), part()]
        if draw.random() < 0.3:
            condition = [draw.choice(["and", "or"]), condition, ["not", [draw.choice([*COMPARED]), part(), part()]]]
        return [operator, condition, part(), *([part()] if draw.random() < 0.9 else [])]
    return [operator, *(part() for _ in range(draw.randint(1, 4)))]


def evaluated(blank: "Page", cases: list[tuple[Tree, dict[str, int]]]) -> list[str | None]:
    return blank.evaluate(  # type: ignore[no-any-return]
        """async (cases) => {
            const { evaluate } = await import("/formula.js");
            const text = (value) => value && `${value.n}/${value.d}`;
            return cases.map(([tree, at]) => text(evaluate(tree, at)));
        }""",
        [[tree, {letter: str(size) for letter, size in at.items()}] for tree, at in cases],
    )


def test_random_formulas_have_the_value_that_sympy_gives_to_the_last_digit(blank: "Page", is_whole: bool) -> None:
    draw = random.Random(20)
    cases = [
        (random_tree(draw, 4), {letter: draw.randint(1, 10 ** draw.randint(1, 9)) for letter in LETTERS})
        for _ in range(500 if is_whole else 150)
    ]
    expected = [value_of(tree, at) for tree, at in cases]
    found = evaluated(blank, cases)
    for (tree, at), ours, theirs in zip(cases, found, expected, strict=True):
        assert ours == (None if theirs is None else f"{theirs.p}/{theirs.q}"), (tree, at)
    assert 0 < sum(one is None for one in found) < len(found) / 2
    assert max(len(one or "") for one in found) > 40


FORMULA_CASES = 4000
"""Random sizes over all formulas of the catalogue, with --whole."""


def test_every_formula_of_the_catalogue_has_the_value_that_sympy_gives(blank: "Page", is_whole: bool) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from porism.web.catalogue import KINDS, catalogue

    draw = random.Random(22)
    formulas = [cost[kind] for cost in catalogue().costs.values() for kind in KINDS if cost[kind]["tree"] is not None]
    each = -(-FORMULA_CASES // len(formulas)) if is_whole else 1
    cases, expected = [], []
    for formula in formulas:
        # From the text, and not from the tree, which is what is examined.
        expression = sympy.sympify(formula["text"], locals=SYMBOLS)
        for _ in range(each):
            at = {one.name: draw.randint(1, 10 ** draw.randint(1, 9)) for one in expression.free_symbols}
            value = expression.xreplace({SYMBOLS[letter]: sympy.Integer(size) for letter, size in at.items()})
            cases.append((formula["tree"], at))
            expected.append(f"{value.p}/{value.q}")
    assert len(cases) >= (FORMULA_CASES if is_whole else len(formulas))
    for (tree, at), ours, theirs in zip(cases, evaluated(blank, cases), expected, strict=True):
        assert ours == theirs, (tree, at)
    assert max(len(one) for one in expected) > 30


def test_the_page_and_the_server_give_the_catalogues_formulas_the_same_number_and_label(
    blank: "Page", is_whole: bool
) -> None:
    pytest.importorskip("fastapi", reason="fastapi is not installed")
    from porism.web.catalogue import KINDS, catalogue
    from porism.web.values import value_at

    draw = random.Random(21)
    cases, expected = [], []
    for cost in catalogue().costs.values():
        for kind in KINDS:
            for scale in (20, 200, 10**5, 10**9) if is_whole else (200, 10**9):
                multiples = {one["letter"]: one["multiple"] for one in cost["letters"]}
                at = {letter: draw.randint(1, scale) * draw.choice([1, step]) for letter, step in multiples.items()}
                value = value_at(cost, kind, at)
                cases.append([cost["target"], kind, {letter: str(size) for letter, size in at.items()}])
                expected.append([value.digits, value.label])
    found = blank.evaluate(
        """async ([costs, cases]) => {
            const { quantityAt } = await import("/quantity.js");
            return cases.map(([target, kind, at]) => {
                const { value, label } = quantityAt(costs[target], kind, at);
                return [value && String(value.n), label];
            });
        }""",
        [catalogue().costs, cases],
    )
    for case, ours, theirs in zip(cases, found, expected, strict=True):
        assert ours == theirs, case
    assert {label for _, label in found} >= {"by formula", "extrapolated", "unknown"}


@pytest.mark.parametrize("tree", [["pow", 2, 3], ["constructor", 1], ["number", "1"], {"a": 1}, ["+", "T", None]])
def test_a_tree_that_is_none_is_refused_and_nothing_is_run(blank: "Page", tree: Tree) -> None:
    error = blank.evaluate(
        """async (tree) => {
            const { evaluate } = await import("/formula.js");
            try { evaluate(tree, {T: 3}); } catch (error) { return error.message; }
        }""",
        tree,
    )
    assert error is not None
    assert error.startswith("formula: ")


T = sympy.Symbol("T", integer=True, positive=True)
PAIRS = [
    (["*", 64, "T"], 64 * T, ["^", "T", 2], T**2),
    (["*", 3, "T"], 3 * T, ["*", 3, "T"], 3 * T),
    (["^", "T", 3], T**3, ["+", ["*", 700, ["^", "T", 2]], -1000], 700 * T**2 - 1000),
    (
        ["*", 512, ["ceil", ["*", "1/100", "T"]]],
        512 * sympy.ceiling(T / 100),
        ["+", "T", 3000],
        T + 3000,
    ),
    (
        ["if", [">", "T", 256], ["*", 256, "T"], ["^", "T", 2]],
        sympy.Piecewise((256 * T, T > 256), (T**2, True)),
        ["^", "T", 2],
        T**2,
    ),
]


@pytest.mark.sweep(1)
@pytest.mark.parametrize(("first", "ours", "second", "theirs"), PAIRS)
def test_the_order_of_two_formulas_changes_where_porism_cost_says(
    blank: "Page", first: Tree, ours: sympy.Expr, second: Tree, theirs: sympy.Expr
) -> None:
    found = blank.evaluate(
        """async ([first, second]) => (await import("/formula.js")).changes(first, second, "T", {T: 1})""",
        [first, second],
    )
    assert [tuple(one) for one in found] == changes(ours, theirs, "T")


def test_only_multiples_at_which_both_hold_are_compared(blank: "Page") -> None:
    found = blank.evaluate(
        """async () => {
            const { changes, leastAlong } = await import("/formula.js");
            const [line, square] = [["*", 100, "T"], ["^", "T", 2]];
            return [changes(square, line, "T", {}, 32), leastAlong([square, line, ["*", 100, "T"]], "T", {}, 32)];
        }"""
    )
    assert found == [[[32, -1], [128, 1]], [[32, [0]], [128, [1, 2]]]]


HEADLINES: list[tuple[str, dict[str, Any], str]] = [
    ("nothing picked", {"names": []}, "Pick a layer to see what it costs"),
    ("one layer", {"names": ["attention"], "value": "42.9 GFLOP"}, "attention takes 42.9 GFLOP at T = 4,096"),
    (
        "one layer that the letter does not change",
        {"names": ["elman"], "value": "1.05 M", "show": "parameters", "depends": False},
        "elman has 1.05 M parameters at every T",
    ),
    (
        "one layer whose number is not known",
        {"names": ["mine"], "unclear": [{"name": "mine", "why": "a lower bound"}]},
        "The FLOPs of mine: a lower bound",
    ),
    ("two, none crosses", {"orders": [[[1, -1]]]}, "taylor takes fewer FLOPs than attention at every T"),
    ("two, the other way", {"orders": [[[1, 1]]]}, "attention takes fewer FLOPs than taylor at every T"),
    ("two, equal", {"orders": [[[1, 0]]]}, "attention and taylor take equally many FLOPs at every T"),
    (
        "two, one crossing",
        {"orders": [[[1, 1], [2179, -1]]]},
        "taylor takes fewer FLOPs than attention from T = 2,179 on",
    ),
    (
        "two, one crossing, back to the first",
        {"orders": [[[1, -1], [2179, 1]]]},
        "attention takes fewer FLOPs than taylor from T = 2,179 on",
    ),
    (
        "two, equal up to a size",
        {"orders": [[[32, 0], [288, -1]]], "steps": [32]},
        "taylor takes fewer FLOPs than attention from T = 288 on",
    ),
    (
        "two, equal from a size on",
        {"orders": [[[1, -1], [64, 0]]]},
        "taylor takes fewer FLOPs than attention up to T = 63, and as many from T = 64 on",
    ),
    (
        "two crossings",
        {"orders": [[[1, -1], [9, 1], [100, -1]]]},
        "taylor takes fewer FLOPs than attention up to T = 8 and from T = 100 on",
    ),
    (
        "many crossings",
        {"orders": [[[1, -1], [9, 1], [10, -1], [20, 1], [1100, -1]]]},
        "attention and taylor change places 4 times; from T = 1,100 on taylor takes fewer FLOPs",
    ),
    (
        "two, one is no more than a bound",
        {"unclear": [{"name": "taylor", "why": "a lower bound"}], "orders": [[[1, -1]]]},
        "No clear answer: the FLOPs of taylor are a lower bound",
    ),
    ("two, a formula does not hold", {"orders": [None]}, "No clear answer: not all formulas hold over T"),
    (
        "three, the one that crosses last",
        {
            "names": ["attention", "window", "taylor"],
            "orders": [[[32, 0], [288, -1]], [[1, 1], [2179, -1]]],
            "steps": [32, 1],
            "least": [[32, [0, 1]], [288, [1]]],
            "step": 32,
        },
        "taylor takes fewer FLOPs than attention from T = 2,179 on",
    ),
    (
        "three, none crosses",
        {"names": ["a", "b", "c"], "orders": [[[1, -1]], [[1, 1]]], "steps": [1, 1], "least": [[1, [1]]]},
        "Of 3, b takes the fewest FLOPs at every T",
    ),
    (
        "three, all equal",
        {"names": ["a", "b", "c"], "orders": [[[1, 0]], [[1, 0]]], "least": [[1, [0, 1, 2]]], "show": "parameters"},
        "All 3 have equally many parameters at every T",
    ),
    (
        "more than three, here",
        {
            "names": ["a", "b", "c", "d"],
            "orders": [[[1, 1]], [[1, 1]], [[1, 1]]],
            "least": [[1, [0]], [100, [2]], [5000, [1, 3]]],
        },
        "Of 4, c takes the fewest FLOPs from T = 100 to 4,999",
    ),
    (
        "more than three, two tie at the end",
        {
            "names": ["a", "b", "c", "d"],
            "orders": [[[1, 1]], [[1, 1]], [[1, 1]]],
            "least": [[1, [0]], [100, [2]], [4000, [1, 3]]],
        },
        "Of 4, b and d take the fewest FLOPs from T = 4,000 on",
    ),
]


@pytest.mark.parametrize(("facts", "sentence"), [pytest.param(facts, text, id=name) for name, facts, text in HEADLINES])
def test_the_headline_of_the_cost_room(blank: "Page", facts: dict[str, Any], sentence: str) -> None:
    usual = {"names": ["attention", "taylor"], "show": "flops", "letter": "T", "size": "4096", "steps": [1]}
    found = blank.evaluate("""async (facts) => (await import("/headline.js")).costHeadline(facts)""", usual | facts)
    assert found == sentence


RUNS: list[tuple[dict[str, Any], str]] = [
    ({"points": [], "state": "running"}, "elman: started, no epoch is done yet"),
    ({"points": [], "state": "stopped"}, "elman: stopped before its first epoch"),
    ({"points": [[1, 161.25]], "counts": 1}, "elman: valid perplexity 161.3 after 1 of 12 epochs"),
    ({"points": [[1, 161.25]], "epochs": None}, "elman: valid perplexity 161.3 after 1 epoch"),
    ({"points": [[1, 161.25]], "epochs": 1}, "elman: valid perplexity 161.3 after 1 of 1 epoch"),
    (
        {"points": [[1, 161.2], [2, 93.0]], "counts": 2},
        "elman: valid perplexity 93 after 2 of 12 epochs, still falling",
    ),
    (
        {"points": [[1, 161.2], [12, 88.51]], "counts": 12, "state": "finished"},
        "elman: valid perplexity 88.51 after 12 of 12 epochs, its best was its last",
    ),
    (
        {"points": [[1, 90.0], [2, 93.0]], "counts": 1},
        "elman: valid perplexity 93 after 2 of 12 epochs; its best checkpoint has 90, of epoch 1",
    ),
    ({"points": [[1, 90.0]], "state": "diverged"}, "elman: valid perplexity 90 after 1 of 12 epochs, and diverged"),
    ({"points": [], "state": "damaged", "message": "no recipe"}, "elman cannot be read: no recipe"),
]


@pytest.mark.parametrize(("facts", "sentence"), RUNS)
def test_the_headline_of_a_run(blank: "Page", facts: dict[str, Any], sentence: str) -> None:
    usual = {"name": "elman", "state": "running", "metric": "perplexity", "split": "valid", "lower": True, "epochs": 12}
    found = blank.evaluate(
        """async (facts) => (await import("/room_headlines.js")).runHeadline(facts)""", usual | facts
    )
    assert found == sentence


@pytest.mark.parametrize(
    ("facts", "sentence"),
    [
        ({"method": "softmax", "error": 0}, "Causal softmax is what the cheaper methods are held against"),
        ({"method": "sliding", "error": None}, "A window of 4 against softmax"),
        ({"method": "block", "error": 0.804}, "Blocks of 4 are 80\u00a0% off softmax here"),
        ({"method": "hybrid", "error": 0}, "A window of 4 with the series of order 2 beyond equals softmax here"),
        (
            {"method": "sliding", "error": 0.5, "random": True},
            "A window of 4 is 50\u00a0% off softmax on random queries and keys",
        ),
        (
            {"method": "taylor", "error": 0.34, "orders": [{"K": 2, "error": 0.34}, {"K": 6, "error": 0.032}]},
            "The series of order 2 is 34\u00a0% off softmax here; order 6 would be 3.2\u00a0% off",
        ),
    ],
)
def test_the_headline_of_a_pattern(blank: "Page", facts: dict[str, Any], sentence: str) -> None:
    usual = {"K": 2, "W": 4}
    found = blank.evaluate(
        """async (facts) => (await import("/room_headlines.js")).patternHeadline(facts)""", usual | facts
    )
    assert found == sentence


@pytest.mark.parametrize("room", ["cost", "patterns", "models", "compare", "ledger"])
def test_the_modules_of_a_room_can_be_joined_into_one_script(blank: "Page", room: str) -> None:
    """Their top-level names are all different, and only single names are imported."""
    script = joined({path.name: path.read_text(encoding="utf-8") for path in STATIC.glob("*.js")}, f"{room}.js")
    assert not re.search(r"^(import|export) ", script, re.MULTILINE)
    error = blank.evaluate(
        "(script) => { try { new Function(script); } catch (error) { return error.message; } }", script
    )
    assert error is None


def test_metrics_are_written_as_people_write_them(blank: "Page") -> None:
    """As in reports."""
    metrics = ["cer", "wer", "macro_f1", "cross_entropy", "accuracy", "bits_per_dimension", "auc"]
    written = blank.evaluate(
        """async (metrics) => metrics.map((await import("/metric_name.js")).metricName)""", metrics
    )
    assert written == [numbers.metric_name(metric) for metric in metrics]


def test_numbers_are_written_in_full_and_in_short(blank: "Page") -> None:
    shown = blank.evaluate(
        """async () => {
            const { digits } = await import("/formula.js"), { fourDigits, several, short } = await import("/words.js");
            const exact = (n, d = 1) => ({n: BigInt(n), d: BigInt(d)});
            return [digits(exact("72000000368640000000000")), digits(exact(7, 2)), digits(exact(-1234)), digits(null),
                    short(26864648192, "FLOP"), short(999500), short(999), short(12), short(1.5), short(0),
                    short(2.5e24), short(6.56e36, "FLOP"),
                    several(0, "run"), several(1, "run"), several(2, "run"),
                    fourDigits(null), fourDigits(0.123456), fourDigits(12345.6)];
        }"""
    )
    full = ["72,000,000,368,640,000,000,000", "3 1/2", "−1,234", "unknown"]
    in_short = ["26.9 GFLOP", "1.00 M", "999", "12", "1.50", "0", "2.50 Y", "6.56e+12 YFLOP"]
    assert shown == [*full, *in_short, "0 runs", "1 run", "2 runs", "–", "0.1235", "12,346"]


@pytest.mark.parametrize(
    ("progress", "text"),
    [
        ({"done": 3, "of": 9, "unit": "claims"}, "3 of 9 claims"),
        ({"done": 44, "of": None, "unit": "sizes counted"}, "44 sizes counted"),
        ({"done": 0, "of": None, "unit": "reading the model"}, "reading the model"),
        ({"done": 0, "of": None, "unit": ""}, "running"),
    ],
)
def test_a_job_says_what_it_does(blank: "Page", progress: dict[str, Any], text: str) -> None:
    job = {"state": "running", "progress": progress}
    assert blank.evaluate('async job => (await import("/live.js")).progressText(job)', job) == text

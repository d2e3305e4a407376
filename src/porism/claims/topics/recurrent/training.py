"""What training recurrent language models gave: results that only training can repeat, and what can be computed
without.

The published table and its recipes are those of the language task.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from statistics import fmean

import torch

import porism.claims.topics.recurrent.rulings as rulings
from porism.claims.checks.compare import ABOUT, compared
from porism.claims.claim import Claim, Empirical, Finding, Statement
from porism.claims.kept.experiments import EXPERIMENTS
from porism.claims.kept.result import read_kept
from porism.runs.exhibits import Lines
from porism.tasks.language.model.build import build
from porism.tasks.language.model.cost import subject
from porism.tasks.language.published import PUBLISHED, PUBLISHED_ELSEWHERE, PUBLISHED_EPOCHS
from porism.tasks.language.recipes import TABLE, WIDE, LanguageRecipe
from porism.training.recipe_cost import recipe_cost

PTB = "Penn Treebank: porism data fetch ptb, or a folder of your own with --data."
COMMANDS = {name: experiment.command for name, experiment in EXPERIMENTS.items()}

LISTED_DROPOUT = 0.1
NEAR = 0.1
"""How far the share that is kept may be from that of a published net which stands for it."""


def published(name: str, split: str = "test") -> float:
    return PUBLISHED[name][split]["perplexity"]


def keep(name: str) -> float:
    """The share that a row of the table keeps."""
    return round(1 - TABLE[name].dropout, 12)


def pairs_by(field: str) -> list[tuple[str, str]]:
    """Rows of the table that differ in one field alone, the one with less of it first."""

    def less(first: LanguageRecipe, second: LanguageRecipe) -> bool:
        alike = replace(first, name=second.name, description=second.description, **{field: getattr(second, field)})
        return alike == second and getattr(first, field) < getattr(second, field)

    return [(a, b) for a, b in permutations(TABLE, 2) if less(TABLE[a], TABLE[b])]


def effects(field: str) -> dict[str, float]:
    """What more of a field alone does to the test perplexity, for every pair that shows it."""
    return {f"{a} to {b}": published(b) - published(a) for a, b in pairs_by(field)}


Table = Callable[[str, str], float]
"""The perplexity of a row on a split."""


def tables() -> dict[str, Table]:
    """The published table, and the one of the kept runs: means over their seeds."""
    result = read_kept("language-table")
    kept: dict[str, Table] = {}
    if result is not None:
        kept["kept"] = lambda name, split: fmean(result.number({"recipe": name}, f"{split}.perplexity"))
    return {"published": published, **kept}


def best_of_the_table(form: tuple[str, float]) -> Finding:
    """The perplexities of a row, and the one that is stated of it on test, against the lowest of each table."""
    name, stated = form
    cases = [
        (f"{kind}, {split}", min(table(row, split) for row in TABLE), table(name, split))
        for kind, table in tables().items()
        for split in ("train", "valid", "test")
    ]
    return compared([*cases, ("published, test, as stated", published(name), stated)])


def order_of_dropping(form: Callable[[float], float]) -> Finding:
    """form(the table's number), the share that is dropped, against what dropping does: pairs in the wrong order.

    The more is dropped in training and not in evaluation, the worse the training text is predicted, by itself and
    compared to the validation text.
    """
    pairs = pairs_by("dropout")
    if outside := [share for name in TABLE if not 0 <= (share := form(keep(name))) <= 1]:
        return Finding(math.inf, 0, f"{outside[0]:g} is no share of all")
    wrong = []
    for kind, table in tables().items():
        for a, b in pairs:
            more, less = (a, b) if form(keep(a)) > form(keep(b)) else (b, a)
            fit_more, fit_less = (table(name, "train") for name in (more, less))
            if fit_more < fit_less or fit_more / table(more, "valid") < fit_less / table(less, "valid"):
                wrong.append(
                    f"{kind}: {more} drops {form(keep(more)):g} of all and {less} {form(keep(less)):g}, yet perplexity "
                    f"on train is {fit_more:.4g} against {fit_less:.4g}"
                )
    evidence = wrong[0] if wrong else f"{len(pairs)} pairs of each table in the order of their fit to the training text"
    return Finding(len(wrong) if pairs else float("nan"), 0, evidence)


def within_reach(form: Callable[[float], float]) -> Finding:
    """How far the source's perplexity lies outside those published for the keep that is nearest to form(dropout)."""
    reached, requested = PUBLISHED_ELSEWHERE["wide"], form(LISTED_DROPOUT)
    nearest = min({keep(name) for name in TABLE}, key=lambda known: abs(known - requested))
    if abs(nearest - requested) > NEAR:
        return Finding(math.inf, 0, f"no published net keeps about {requested:g}")
    found = [published(name) for name in TABLE if keep(name) == nearest]
    outside = max(min(found) - reached, reached - max(found), 0.0)
    span = " to ".join(f"{end:g}" for end in sorted({min(found), max(found)}))
    return Finding(outside / reached, 0, f"{reached:g} is stated; published nets that keep {nearest:g} reach {span}")


Results = Mapping[str, Sequence[float]]
"""Settings, and the perplexities that are stated of each."""


def one_result_a_setting(form: Results) -> Finding:
    """How far results that are given for one setting lie apart, as a part of the highest: a tenth is about the same.

    Every perplexity that the source states of a net of these widths has to have its place, and that of `wide` is the
    listed one's.
    """
    stated = sorted([PUBLISHED_ELSEWHERE["tuned"], PUBLISHED_ELSEWHERE["wide"]])
    placed = sorted(result for results in form.values() for result in results)
    if placed != stated or PUBLISHED_ELSEWHERE["wide"] not in form.get(LISTED, ()):
        return Finding(float("inf"), ABOUT, f"{placed} for {', '.join(form)}, where the source states {stated}")
    apart = {setting: 1 - min(results) / max(results) for setting, results in form.items()}
    worst = max(apart, key=lambda setting: apart[setting])
    given = " and ".join(f"{result:g}" for result in form[worst])
    return Finding(apart[worst], ABOUT, f"{worst}: {given}, {apart[worst]:.1%} apart")


def parameters_and_products(recipe: LanguageRecipe, V: int = 10_000) -> tuple[int, int]:
    """Of a model at the vocabulary of Penn Treebank: numbers that it learns, and multiplications for a word."""
    with torch.device("meta"):
        parameters = sum(parameter.numel() for parameter in build(recipe, V).parameters())
    cost = recipe_cost(recipe, subject(recipe))
    flops = cost.at(B=1, T=1, V=V, D=recipe.embedding_dim, H=recipe.hidden_size).flops
    return parameters, int(flops) // 2


def more_than_ten_times() -> Finding:
    """Ten as a part of how many times more multiplications the wide net takes: at most one."""
    (parameters, products), (more_parameters, more_products) = map(parameters_and_products, WIDE.values())
    return Finding(
        10 * products / more_products,
        1,
        f"{more_products / products:.1f} times the multiplications a word ({more_products:,} against {products:,}), "
        f"{more_parameters / parameters:.1f} times the parameters ({more_parameters:,} against {parameters:,})",
    )


def moved_by_rate_and_batch() -> Finding:
    """What stopping later does to the test perplexity, as a part of what learning rate and batch do."""
    largest = {field: max(map(abs, effects(field).values())) for field in ("patience", "learning_rate", "batch_size")}
    return Finding(
        largest["patience"] / min(largest["learning_rate"], largest["batch_size"]),
        1,
        "in the published table " + "; ".join(_told(field) for field in largest),
    )


def _told(field: str) -> str:
    return f"more {field.replace('_', ' ')}: " + ", ".join(f"{c:+.1f} ({pair})" for pair, c in effects(field).items())


def _table_over_keep() -> Lines:
    names = sorted({name for pair in pairs_by("dropout") for name in pair}, key=keep)
    splits = ("train", "valid", "test")
    return Lines(
        title="The published numbers called dropout",
        about="Training gets worse the smaller the number is: it is the share that is kept.",
        x="the number",
        y="perplexity",
        lines={split: [(keep(name), published(name, split)) for name in names] for split in splits},
    )


LISTED = f"batch 128, widths 256 and 512, dropout {LISTED_DROPOUT}, learning rate 0.001"

CLAIMS: tuple[Statement, ...] = (
    Empirical(
        id="000-25a",
        topic="recurrent",
        where="II",
        says=f"Out of the box the net comes to a perplexity of a little over {PUBLISHED_ELSEWHERE['default']:g}.",
        way="not by training",
        reason="The settings that it came with are not listed.",
    ),
    Empirical(
        id="000-25b",
        topic="recurrent",
        where="II",
        says=f"Tuned, the net comes to a perplexity of about {PUBLISHED_ELSEWHERE['tuned']:g}.",
        command=COMMANDS["language-widths"],
        needs=PTB,
        kept="language-widths",
        rule=rulings.perplexity_about(PUBLISHED_ELSEWHERE["tuned"]),
    ),
    Empirical(
        id="000-26a",
        topic="recurrent",
        where="II",
        says="The number of steps in a window hardly matters, unless it is extreme.",
        precise="Windows of any length read the same text in an epoch; shorter ones make more updates of it.",
        command=COMMANDS["steps-question"],
        needs=f"{PTB} Without --data the embedded text answers on a small scale.",
        kept="steps-question",
        rule=rulings.steps_make_little_difference,
    ),
    Empirical(
        id="000-26b",
        topic="recurrent",
        where="II",
        says="With an extreme number of steps the net writes babble.",
        way="not by training",
        reason="People have to read it.",
    ),
    Empirical(
        id="000-27",
        topic="recurrent",
        where="II",
        says="With early stopping, learning rate and batch size make little difference.",
        precise="The table of the other source on the same nets speaks against it, one run a row.",
        command=COMMANDS["rate-question"],
        needs=f"{PTB} Without --data the embedded text answers on a small scale.",
        kept="rate-question",
        rule=rulings.rate_and_batch_make_little_difference,
        known=moved_by_rate_and_batch,
    ),
    Claim(
        id="000-28",
        topic="recurrent",
        where="II",
        says=(
            f"These settings give a perplexity of about {PUBLISHED_ELSEWHERE['tuned']:g}; and further down, these "
            f"settings reach {PUBLISHED_ELSEWHERE['wide']:g}."
        ),
        verdict="imprecise",
        precise=(
            f"One setting has one result, give or take its seed: {PUBLISHED_ELSEWHERE['tuned']:g} must belong to "
            "another, which is not listed."
        ),
        judge=one_result_a_setting,
        published=True,
        stated={LISTED: [PUBLISHED_ELSEWHERE["tuned"], PUBLISHED_ELSEWHERE["wide"]]},
        corrected={LISTED: [PUBLISHED_ELSEWHERE["wide"]], "one that is not listed": [PUBLISHED_ELSEWHERE["tuned"]]},
    ),
    Empirical(
        id="000-29",
        topic="recurrent",
        where="II",
        says=(
            f"Widths of 2048 and 4096 reach {PUBLISHED_ELSEWHERE['widest']:g} and take more than ten times as long as "
            "those of 256 and 512."
        ),
        formulas=("H**2 + D*H + H*V",),
        command=COMMANDS["language-widths"],
        needs=PTB,
        kept="language-widths",
        rule=rulings.widest_is_better_and_slower,
        known=more_than_ten_times,
    ),
    Claim(
        id="000-30",
        topic="recurrent",
        where="II",
        says=f"Dropout is {LISTED_DROPOUT}.",
        verdict="holds",
        precise=(
            "The share that is dropped, as the word says: nets that keep so little do not come near the perplexity "
            "that is reported. In the table of the other source the same word stands for the share that is kept "
            "(001-36)."
        ),
        judge=within_reach,
        published=True,
        stated=lambda dropout: 1 - dropout,
        # As if it were the share that is kept.
        rival=lambda dropout: dropout,
    ),
    Empirical(
        id="000-31",
        topic="recurrent",
        where="II",
        says="The text resembles headlines and financial news from the early nineties.",
        way="not by training",
        reason=(
            "The source does not say which text it is. If it is Penn Treebank, as its vocabulary suggests, these are "
            "newspaper articles: their sentences can be measured, and the year of a text that names none cannot."
        ),
    ),
    Empirical(
        id="000-32",
        topic="recurrent",
        where="II",
        says="What the net writes has a fair grammar and makes no sense.",
        way="not by training",
        reason="People have to read it.",
        command=(
            "porism train language table-02 --set embedding_dim=256 --set hidden_size=512 --data ptb --out runs/wide "
            '&& porism predict runs/wide "in palo alto" "unfortunately" "reporters"'
        ),
        needs=PTB,
    ),
    Empirical(
        id="001-32",
        topic="recurrent",
        where="1(d)",
        says="Twelve settings, in the order of their perplexities on train, valid and test.",
        precise="Published as single runs, without seeds and intervals. What can be repeated is the order of the rows.",
        command=COMMANDS["language-table"],
        needs=PTB,
        kept="language-table",
        rule=rulings.order_of_the_table,
    ),
    Claim(
        id="001-33",
        topic="recurrent",
        where="1(d)",
        says=f"Of the twelve settings the last is the best, with {published('table-12'):g} on test.",
        verdict="holds",
        precise=(
            "On train, valid and test alike, in the published table and in the kept runs. One should choose by valid, "
            "which chooses the same."
        ),
        judge=best_of_the_table,
        published=True,
        stated=("table-12", published("table-12")),
        rival=("table-11", published("table-11")),
    ),
    Empirical(
        id="001-34a",
        topic="recurrent",
        where="1(d)",
        says=f"The ninth setting is done in {PUBLISHED_EPOCHS['table-09']} epochs.",
        command=COMMANDS["language-table"],
        needs=PTB,
        kept="language-table",
        rule=rulings.epochs_as_published("table-09"),
    ),
    Empirical(
        id="001-34b",
        topic="recurrent",
        where="1(d)",
        says="The ninth setting is done in few epochs because its learning rate is larger.",
        precise="Rows that differ in the learning rate alone tell whether a larger one is done sooner.",
        command=COMMANDS["language-table"],
        needs=PTB,
        kept="language-table",
        rule=rulings.fewer_epochs_with_larger_rate,
    ),
    Empirical(
        id="001-35",
        topic="recurrent",
        where="1(d)",
        says=(
            f"The tenth setting takes {PUBLISHED_EPOCHS['table-10']} epochs, the twelfth "
            f"{PUBLISHED_EPOCHS['table-12']}."
        ),
        command=COMMANDS["language-table"],
        needs=PTB,
        kept="language-table",
        rule=rulings.epochs_as_published("table-10", "table-12"),
    ),
    Claim(
        id="001-36",
        topic="recurrent",
        where="1(d)",
        says="Dropout is 0.9, 0.6 or 0.2.",
        verdict="imprecise",
        precise=(
            "These are the shares that are kept, so that 0.1, 0.4 and 0.8 are dropped. The kept runs fit their "
            "training text in the same order."
        ),
        picture=_table_over_keep,
        judge=order_of_dropping,
        published=True,
        stated=lambda dropout: dropout,
        corrected=lambda dropout: 1 - dropout,
    ),
)

"""What kept runs of the two decoders say."""

from collections.abc import Callable

from porism.claims.claim import Ruling
from porism.claims.kept.experiments import EARLY
from porism.claims.kept.result import KeptResult
from porism.claims.kept.rulings import Settings, both, is_about, larger, shown, too_few_seeds
from porism.errors import ClaimError
from porism.runs.statistics import interval
from porism.tasks.speech.recipes import PUBLISHED

WORDS, SIMILARITY, REPLACED = "test.in_vocabulary_rate", "test.damerau_levenshtein", "test.substitution_rate"
FIRST, WIDEST = 1, 3
"""Epochs: in the third the gap is said to be widest."""
EPOCHS, END = range(1, EARLY + 1), "valid.loss"


def reaches_published(recipe: str) -> Callable[[KeptResult], Ruling]:
    """Whether every published number of a decoder is within a tenth of the mean over seeds."""

    def rule(result: KeptResult) -> Ruling:
        if missing := too_few_seeds(result, {"recipe": recipe}):
            return Ruling(None, missing)
        found = []
        for metric, number in PUBLISHED[recipe]["test"].items():
            values = result.number({"recipe": recipe}, f"test.{metric}")
            found.append(Ruling(is_about(values, number), f"{metric} {shown(interval(values))}, {number} published"))
        return both(*found)

    return rule


def decoder(result: KeptResult, name: str) -> Settings:
    """The runs with this decoder, whatever else its recipe has: `lstm` or `lstm-guided`."""
    recipes = [recipe for recipe in result.values("recipe") if str(recipe).split("-")[0] == name]
    if len(recipes) != 1:
        raise ClaimError(f"kept result {result.name}: {len(recipes)} recipes with the decoder {name}, expected one.")
    return {"recipe": recipes[0]}


def lstm_is_lower_at_first(result: KeptResult) -> Ruling:
    """Whether the LSTM's loss is lower in the first epochs, most so in the third, and attention gains on it after."""
    lstm, attention = decoder(result, "lstm"), decoder(result, "attention")
    if missing := too_few_seeds(result, lstm, attention):
        return Ruling(None, missing)
    early = [
        larger(result, attention, lstm, f"valid.loss@{epoch}", f"loss of attention less the LSTM's in epoch {epoch}")
        for epoch in (FIRST, 2, WIDEST)
    ]
    gaps = {number: _gaps(result, attention, lstm, number) for number in (*(f"valid.loss@{n}" for n in EPOCHS), END)}
    third = gaps.pop(f"valid.loss@{WIDEST}")
    wider = {
        number: interval([third[seed] - gap[seed] for seed in sorted(third, key=str)]) for number, gap in gaps.items()
    }
    widest = [
        Ruling(
            found.mean > 0 if found.excludes_zero else None,
            f"{shown(found)} more in epoch {WIDEST} than {'at the end' if number == END else number.split('@')[1]}",
        )
        for number, found in wider.items()
    ]
    return both(*early, *widest)


def _gaps(result: KeptResult, first: Settings, second: Settings, number: str) -> dict[int | None, float]:
    """first - second of every seed that both have."""
    others = {run.seed: run.numbers[number] for run in result.chosen(second)}
    return {run.seed: run.numbers[number] - others[run.seed] for run in result.chosen(first) if run.seed in others}


def lstm_writes_words_attention_is_closer(result: KeptResult) -> Ruling:
    """Whether more of the LSTM's words exist, and attention's text is closer to the target."""
    lstm, attention = decoder(result, "lstm"), decoder(result, "attention")
    return both(
        larger(result, lstm, attention, WORDS, "share of words that exist, the LSTM's less attention's"),
        larger(result, attention, lstm, SIMILARITY, "edit similarity, attention's less the LSTM's"),
    )


def errors_are_of_other_kinds(result: KeptResult) -> Ruling:
    """Whether more of the LSTM's words exist although it replaces more characters: words that are whole and wrong."""
    lstm, attention = decoder(result, "lstm"), decoder(result, "attention")
    return both(
        larger(result, lstm, attention, WORDS, "share of words that exist, the LSTM's less attention's"),
        larger(result, lstm, attention, REPLACED, "replaced characters, the LSTM's less attention's"),
    )

"""A text in numbers for people: tokens, vocabulary, what is unknown."""

from porism.tasks.blocks.texts import SPLITS
from porism.tasks.language.data.corpus import Corpus

MANY_UNKNOWN = 0.1
"""Share of `<unk>` from which on a warning is due: perplexity then tells little about the text."""


def text_facts(corpus: Corpus) -> dict[str, int | float | str]:
    """What a run records of its text."""
    lowered = ", in lower case" if corpus.tokenizer.lowercase else ""
    return {
        "tokenizer": corpus.tokenizer.name + lowered,
        "vocabulary": len(corpus.vocabulary),
        **{f"tokens of {split}": len(corpus.streams[split]) for split in SPLITS},
        **corpus.facts,
        **{f"<unk> in {split}": _percent(corpus.unknown_share(split)) for split in SPLITS},
    }


def text_notes(corpus: Corpus) -> list[str]:
    """The same in one line, and a warning where much is unknown."""
    facts = text_facts(corpus)
    counts = ", ".join(
        f"{split} {len(corpus.streams[split]):,} ({_percent(corpus.unknown_share(split))} <unk>)" for split in SPLITS
    )
    notes = [f"tokens ({facts['tokenizer']}): {counts}; vocabulary {len(corpus.vocabulary):,}"]
    worst = max(SPLITS, key=corpus.unknown_share)
    if (share := corpus.unknown_share(worst)) > MANY_UNKNOWN:
        notes.append(
            f"warning: {_percent(share)} of {worst} is <unk>, which counts as one easy token: perplexity tells little, "
            "bits per byte more. Try tokenizer=bpe or characters, lowercase=true, or a larger max_vocab_size."
        )
    return notes


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")

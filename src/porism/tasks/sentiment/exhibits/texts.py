"""Exhibits of the texts: how many of each class, how long, one as tokens and ids, and the sizes on its way through."""

from collections.abc import Sequence

import torch
from torch import Tensor

from porism.runs.exhibits import AnyExhibit, Histogram, Table
from porism.tasks.blocks.padding import is_padding
from porism.tasks.blocks.texts import SPLITS
from porism.tasks.sentiment.data.batches import TokenizedReview
from porism.tasks.sentiment.data.reviews import CLASSES, Reviews
from porism.tasks.sentiment.data.tokenizer import ReviewTokenizer
from porism.tasks.sentiment.model.base import Classifier

MOST_BARS = 40
MOST_TOKENS = 40


def text_exhibits(
    model: Classifier,
    tokenizer: ReviewTokenizer,
    reviews: Reviews,
    examples: dict[str, list[TokenizedReview]],
    max_length: int,
    sentences: Sequence[str],
) -> list[AnyExhibit]:
    """Counts by class, the histogram of lengths, and the first of the sentences from tokens to logits."""
    made: list[AnyExhibit] = [class_counts(reviews), length_histogram(examples, max_length)]
    for sentence in sentences[:1]:
        made += [
            sentence_tokens(tokenizer, sentence, max_length),
            state_sizes(model, tokenizer, sentence, max_length),
        ]
    return made


def class_counts(reviews: Reviews) -> Table:
    """Texts by class and split."""
    rows, texts, conflicting, _ = reviews.duplicates
    copies = f"{rows:,} rows, {texts:,} distinct texts"
    several = f", {conflicting:,} of them under several classes" if conflicting else ""
    kept = "; each text was kept once" if reviews.deduplicated and rows > texts else ""
    counts = {split: reviews.counts(split) for split in SPLITS}
    made = "Synthetic sentences of a small grammar, nobody's opinions. " if reviews.synthetic else ""
    scores = ("1 and 2", "3", "4 and 5")
    return Table(
        title="Texts of each class",
        about=f"{made}{copies}{several}{kept}. Scores from 1 to 5 are three classes.",
        columns=["class", "scores", *SPLITS],
        rows=[[name, scores[label], *(counts[split][label] for split in SPLITS)] for label, name in enumerate(CLASSES)],
    )


def length_histogram(examples: dict[str, list[TokenizedReview]], max_length: int) -> Histogram:
    """How many texts have how many tokens, before any is truncated."""
    lengths = torch.tensor([example.whole for split in SPLITS for example in examples[split]])
    least, most = int(lengths.min()), int(lengths.max())
    width = -(-(most + 1 - least) // MOST_BARS)
    edges = list(range(least, most + 1 + width, width))
    counts = torch.bincount((lengths - least) // width, minlength=len(edges) - 1).tolist()
    cut = int((lengths > max_length).sum())
    truncated = f"{cut:,} texts are longer than {max_length} tokens and truncated" if cut else "none is truncated"
    return Histogram(
        title="Lengths of the texts",
        about=f"All splits: {least} to {most} tokens, half of them up to {int(lengths.median())}; {truncated}.",
        x="tokens",
        y="texts",
        edges=[float(edge) for edge in edges],
        counts=counts,
    )


def sentence_tokens(tokenizer: ReviewTokenizer, sentence: str, max_length: int) -> Table:
    """A sentence as tokens and ids, and back."""
    found = tokenizer.encode(sentence, max_length)
    shown = min(len(found.ids), MOST_TOKENS)
    more = f" Its first {shown} of {len(found.ids)} tokens:" if shown < len(found.ids) else ""
    return Table(
        title="A sentence as tokens",
        about=f"“{sentence}” as {len(found.ids)} tokens out of {len(tokenizer):,}; from the ids back: "
        f"“{tokenizer.decode(found.ids)}”.{more}",
        columns=["token", "id"],
        # Ids are names, no amounts.
        rows=[[token, str(id)] for token, id in zip(found.tokens[:shown], found.ids[:shown], strict=True)],
    )


def state_sizes(model: Classifier, tokenizer: ReviewTokenizer, sentence: str, max_length: int) -> Table:
    """The sizes of what the model makes of the sentence, step by step."""
    device = model.head.weight.device
    tokens = torch.tensor([tokenizer.encode(sentence, max_length).ids], device=device)
    lengths = torch.tensor([tokens.shape[1]], device=device)
    hidden, pooled = model.encoder(tokens, is_padding(lengths, tokens.shape[1]))
    steps: dict[str, tuple[Tensor, str]] = {
        "token ids": (tokens, "B T"),
        "hidden states of the last layer": (hidden, "B T H"),
        "pooled output": (pooled, "B H"),
        "logits": (model.head(pooled), "B classes"),
    }
    return Table(
        title="Sizes of the hidden states",
        about="The same sentence on its way to the classes: B texts, T tokens, states H wide.",
        columns=["what", "letters", "sizes"],
        rows=[[name, letters, " x ".join(map(str, x.shape))] for name, (x, letters) in steps.items()],
    )

"""Exhibits of the predictions: confusion matrix, each class, sentences with probabilities, weights of their words."""

from collections.abc import Sequence

import torch
from torch import Tensor

from porism.runs.exhibits import AnyExhibit, Table, WeighedText, WeighedTexts
from porism.tasks.blocks.classification import confusion_exhibits, surest_mistakes
from porism.tasks.blocks.padding import is_padding
from porism.tasks.sentiment.data.reviews import CLASSES, Reviews
from porism.tasks.sentiment.data.tokenizer import ReviewTokenizer
from porism.tasks.sentiment.metric import evaluate
from porism.tasks.sentiment.model.base import Classifier
from porism.tasks.sentiment.model.pretrained import PretrainedEncoder

MISTAKES = 8
LONGEST_SHOWN = 60
"""Tokens of a text whose weights are shown."""


def prediction_exhibits(
    model: Classifier,
    tokenizer: ReviewTokenizer,
    reviews: Reviews,
    logits: Tensor,
    max_length: int,
    sentences: Sequence[str],
) -> list[AnyExhibit]:
    """What the model says of the test texts (logits (N, classes)), and of a few sentences."""
    probs = logits.double().softmax(1)
    labels = torch.tensor([review.label for review in reviews.splits["test"]])
    made: list[AnyExhibit] = [
        *confusion_exhibits(probs.argmax(1), labels, CLASSES, "texts"),
        accuracies(logits, reviews),
    ]
    if sentences:
        made.append(probabilities(model, tokenizer, sentences, max_length))
        made.append(weights_of_words(model, tokenizer, sentences, max_length))
    wrong = mistakes(probs, labels, reviews)
    return [*made, wrong] if wrong.rows else made


def accuracies(logits: Tensor, reviews: Reviews) -> Table:
    """The accuracy beside its chance level, and that of parts of the test."""
    found = evaluate(logits, reviews, "test")
    names = {
        "accuracy": "all test texts",
        "accuracy_negated": "negated opinions alone",
        "accuracy_unseen": "texts that train does not have",
        "chance_accuracy": "chance: the most frequent class of train, predicted for every text",
    }
    return Table(
        title="Accuracy of parts of the test",
        about="",
        columns=["part", "accuracy"],
        rows=[[title, found[name]] for name, title in names.items() if name in found],
    )


def probabilities(model: Classifier, tokenizer: ReviewTokenizer, sentences: Sequence[str], max_length: int) -> Table:
    """The class of each sentence, with the probability of every class."""
    rows: list[list[str | int | float]] = []
    for sentence in sentences:
        tokens, lengths = _tensors(model, tokenizer, sentence, max_length)
        probs = model(tokens, lengths)[0].double().softmax(0).cpu()
        rows.append([_cut(sentence), CLASSES[int(probs.argmax())], *probs.tolist()])
    return Table(
        title="Sentences and their classes",
        about="The class the model says, and the probability it gives to each.",
        columns=["sentence", "class", *CLASSES],
        rows=rows,
    )


def weights_of_words(
    model: Classifier, tokenizer: ReviewTokenizer, sentences: Sequence[str], max_length: int
) -> WeighedTexts:
    """Which tokens the pooled output is made of."""
    texts = []
    for sentence in sentences:
        tokens, lengths = _tensors(model, tokenizer, sentence, max_length)
        weights = model.encoder.word_weights(tokens, is_padding(lengths, tokens.shape[1]))[0].double().cpu()
        predicted = CLASSES[int(model(tokens, lengths)[0].argmax())]
        names = tokenizer.encode(sentence, tokens.shape[1]).tokens
        more = f", the first {LONGEST_SHOWN} tokens" if len(names) > LONGEST_SHOWN else ""
        texts.append(
            WeighedText(
                words=names[:LONGEST_SHOWN],
                weights=weights.tolist()[:LONGEST_SHOWN],
                caption=f"taken for {predicted}{more}",
            )
        )
    how = (
        "How much the first token attends to each token in the last layer, the mean over its heads"
        if isinstance(model.encoder, PretrainedEncoder)
        else "The weight of each word's state, in which its neighbours are, in the pooled output that the classes are "
        "read from"
    )
    return WeighedTexts(
        title="Attention over the words",
        about=f"{how}: the darker, the more. It tells where the model reads, not why it decides.",
        texts=texts,
    )


def mistakes(probs: Tensor, labels: Tensor, reviews: Reviews) -> Table:
    """The mistakes the model is surest of."""
    surest, predicted = probs.max(1)
    wrong = surest_mistakes(probs, labels)
    test = reviews.splits["test"]
    return Table(
        title="The worst mistakes",
        about=f"{len(wrong)} of {len(labels)} test texts are taken for another class; those the model is surest of.",
        columns=["text", "is", "taken for", "probability"],
        rows=[
            [_cut(test[row].text), CLASSES[int(labels[row])], CLASSES[int(predicted[row])], float(surest[row])]
            for row in wrong[:MISTAKES]
        ],
    )


def _tensors(model: Classifier, tokenizer: ReviewTokenizer, sentence: str, max_length: int) -> tuple[Tensor, Tensor]:
    """Ids (1, T) and length (1,) of one text."""
    ids = tokenizer.encode(sentence, max_length).ids
    device = model.head.weight.device
    return torch.tensor([ids], device=device), torch.tensor([len(ids)], device=device)


def _cut(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= 160 else words[:157] + "..."

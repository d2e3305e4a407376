"""The sentiment task from a file to a report: the synthetic sentences, and a file of the published shape."""

import csv
import json
import random
import shutil
from pathlib import Path

import pytest
import torch
from tests.tasks.sentiment.conftest import WriteReviews, few_reviews

from porism.cli import main
from porism.errors import DataError, RecipeError
from porism.runs.exhibits import Histogram, Matrix, WeighedTexts
from porism.runs.recipe import override
from porism.runs.record import read_run
from porism.tasks.sentiment.recipes import RECIPES
from porism.tasks.sentiment.task import Sentiment

PUBLISHED = (5028, 5042, 5676)


needs_training = pytest.mark.sample(0)
"""Tests of the run that is trained until it has learned, for which `make test` does not wait."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the default recipe, of 4 epochs in place of 8."""
    out: Path = tmp_path_factory.mktemp("trained") / "run"
    assert main(["train", "sentiment", "--out", str(out), "--threads", "1", "--set", "epochs=4"]) == 0
    return out


@needs_training
def test_the_synthetic_sentences_are_learned_negation_included(trained: Path) -> None:
    found = json.loads((trained / "metrics.json").read_text())["metrics"]["test"]
    assert found["accuracy"] >= 0.95
    assert found["accuracy_negated"] >= 0.95
    assert found["chance_accuracy"] < 0.4


@needs_training
def test_predict_tells_the_class_and_the_probabilities(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    long = "it is not good " * 50
    assert main(["predict", str(trained), "I love it", "the soup is NOT good!", long, "--json"]) == 0
    captured = capsys.readouterr()
    love, soup, cut = json.loads(captured.out.splitlines()[-1])["predictions"]
    assert (love["details"]["class"], soup["details"]["class"]) == ("positive", "negative")
    assert sum(love["details"]["probabilities"].values()) == pytest.approx(1)
    assert "I love it -> positive (0." in captured.err
    assert cut["notes"] == ["200 tokens, of which the first 160 were read"]


@needs_training
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (" ", "the text is empty"),
        ("zzz qqq", "'zzz qqq': the model knows no word of it, so its answer would not depend on it"),
    ],
)
def test_a_text_without_a_known_word_is_refused(
    trained: Path, text: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", str(trained), text]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    assert main(["predict", str(trained), "it is good", "--set", "top_k=3"]) == 2
    assert "classifying a text has no option 'top_k'" in capsys.readouterr().err


@needs_training
def test_the_report_shows_what_it_should(trained: Path) -> None:
    shown = {exhibit.title: exhibit for exhibit in read_run(trained).exhibits}
    assert list(shown)[:9] == [
        *("Texts of each class", "Lengths of the texts", "A sentence as tokens", "Sizes of the hidden states"),
        *("Confusion matrix", "Each class", "Accuracy of parts of the test"),
        *("Sentences and their classes", "Attention over the words"),
    ]
    matrix, lengths = shown["Confusion matrix"], shown["Lengths of the texts"]
    weights = shown["Attention over the words"]
    assert isinstance(matrix, Matrix)
    assert [len(row) for row in matrix.counts] == [3, 3, 3]
    assert sum(map(sum, matrix.counts)) == 1000
    assert isinstance(lengths, Histogram)
    assert sum(lengths.counts) == 5500
    assert len(lengths.edges) == len(lengths.counts) + 1
    assert isinstance(weights, WeighedTexts)
    assert all(sum(text.weights) == pytest.approx(1) for text in weights.texts)
    page = (trained / "report.html").read_text()
    assert "synthetic, of a small grammar" in page
    assert "<svg" in page


def published_file(path: Path) -> Path:
    """15,746 rows with the classes of the published file, a third of them copies, in columns as app stores have."""
    draw = random.Random(5)
    opinions = {1: "awful", 2: "bad", 3: "okay", 4: "good", 5: "great"}
    rows = []
    for count, scores in zip(PUBLISHED, ((1, 2), (3,), (4, 5)), strict=True):
        texts = [
            (f"app number {draw.randrange(10**6)} is {opinions[score]} , i say", score)
            for score in draw.choices(scores, k=count * 2 // 3)
        ]
        rows += texts + draw.choices(texts, k=count - len(texts))
    draw.shuffle(rows)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["userName", "content", "score", "thumbsUpCount", "appId"])
        writer.writerows([f"user {number}", text, score, 0, "com.any"] for number, (text, score) in enumerate(rows))
    return path


@pytest.fixture(scope="module")
def reviews_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(published_file(tmp_path_factory.mktemp("published") / "reviews.csv"))


def test_a_file_of_the_published_shape_goes_end_to_end(reviews_file: str, tmp_path: Path) -> None:
    small = ["hidden_size=16", "num_layers=1", "epochs=1", "batch_size=256", "deduplicate=false"]
    assignments = [word for assignment in small for word in ("--set", assignment)]
    out = str(tmp_path / "run")
    options = ["--threads", "1", "--no-baselines"]  # which test_baselines.py has, and which take half of the time
    assert main(["train", "sentiment", "--data", reviews_file, "--out", out, *options, *assignments]) == 0
    told = json.loads((tmp_path / "run" / "metrics.json").read_text())
    facts, metrics = told["facts"], told["metrics"]
    assert facts["rows"] == 15_746
    assert facts["split"] == "train 14,171, valid 787, test 788, drawn at random"
    assert 45 < float(facts["test texts that are in train"].rstrip("%")) < 60
    assert 0 <= metrics["test"]["accuracy_unseen"] <= 1
    assert told["published"] == {}  # those are of BERT


def test_the_leakage_is_told_with_and_without_deduplication(reviews_file: str) -> None:
    facts = Sentiment.load(RECIPES["attention"], reviews_file).facts()
    assert facts["rows"] == 15_746
    assert 10_000 < int(facts["distinct texts"]) < 10_600
    assert facts["test texts that are in train"] == "0.0%"
    assert 45 < float(str(facts["the same without deduplication"]).rstrip("%")) < 60


def test_published_numbers_stand_beside_the_published_settings_alone(tiny_bert: Path, reviews_file: str) -> None:
    base = RECIPES["bert-published"]
    # The tiny encoder has too few positions for the published length.
    task = Sentiment.load(override(base, [f"encoder={tiny_bert}", "max_length=32"]), reviews_file)

    def published(*changed: str) -> dict[str, dict[str, float]]:
        task.recipe = override(base, [f"encoder={tiny_bert}", *changed])
        return task.published()

    assert published()["test"]["accuracy"] == pytest.approx(0.895, abs=5e-4)
    assert published("epochs=5") == {"valid": {"accuracy": 0.864}}
    assert published("learning_rate=0.001") == published("max_length=32") == {}
    # Each text once: other data.
    task.recipe = override(RECIPES["bert"], [f"encoder={tiny_bert}"])
    assert task.published() == {}


BAD = {
    "encoder alone": (["encoder=x"], "encoder=x is for model=pretrained, got model=attention"),
    "no encoder": (["model=pretrained"], "model=pretrained needs an encoder"),
    "heads": (["num_heads=5"], "hidden_size=64 does not split into 5 heads. Use --set num_heads=4."),
    "frozen": (["num_frozen_layers=3"], "num_frozen_layers=3, and there are 2 layers"),
    "no test": (["test_split=0"], "expected shares above 0 that leave texts for train"),
    "no train": (["test_split=0.5", "validation_split=0.5"], "expected shares above 0 that leave texts for train"),
}


@pytest.mark.parametrize(("changed", "message"), BAD.values(), ids=BAD)
def test_settings_that_cannot_be(changed: list[str], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        override(RECIPES["attention"], changed)


def test_a_column_of_the_synthetic_sentences_cannot_be_named() -> None:
    with pytest.raises(RecipeError, match="text_column=x is for a file"):
        Sentiment.load(override(RECIPES["attention"], ["text_column=x"]), None)


def test_classes_weigh_in_the_loss_by_the_inverse_of_their_share(write_reviews: WriteReviews) -> None:
    rows = [(text, score) for text, score in few_reviews(100) if score != 3] + [("fine", 3), ("so so", 3), ("meh", 3)]
    task = Sentiment.load(override(RECIPES["attention"], ["class_weight=balanced"]), str(write_reviews(rows)))
    counts = torch.tensor(task.reviews.counts("train")).float()
    assert task._class_weights is not None
    torch.testing.assert_close(task._class_weights * counts, torch.full((3,), float(counts.sum()) / 3))
    torch.manual_seed(1)
    model, batch = task.build().eval(), task.batches(1, 1)[0]
    logits = model(batch[0], batch[1])
    expected = torch.nn.functional.cross_entropy(logits, batch[2], task._class_weights)
    torch.testing.assert_close(task.loss(model, batch, {})[0], expected)
    assert task.training_metrics(1.0) == {"loss": 1.0}


@pytest.mark.parametrize("name", ["attention", "window", "taylor", "hybrid"])
def test_padding_changes_nothing(name: str) -> None:
    task = Sentiment.load(RECIPES[name], None)
    torch.manual_seed(1)
    model = task.build().eval()
    ids = torch.randint(2, 90, (1, 9))
    padded = torch.cat([ids, torch.full((1, 14), 7)], 1)
    both = model(torch.cat([padded, padded.flip(1)]), torch.tensor([9, 23]))
    torch.testing.assert_close(both[:1], model(ids, torch.tensor([9])), atol=1e-5, rtol=1e-5)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(DataError, match="nowhere.csv: no such file or folder, and no reviews of that name"):
        Sentiment.load(RECIPES["attention"], "nowhere.csv")


def test_encoders_with_different_tokenizers_are_different_data(tiny_bert: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(tiny_bert, tmp_path / "copy")
    swapped = shutil.copytree(tiny_bert, tmp_path / "swapped")
    path = swapped / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    words = tokenizer["model"]["vocab"]
    words["good"], words["bad"] = words["bad"], words["good"]
    path.write_text(json.dumps(tokenizer))

    def fingerprint(encoder: Path) -> str:
        recipe = override(RECIPES["bert"], [f"encoder={encoder}", "max_length=20"])
        return Sentiment.load(recipe, None).fingerprint()

    assert fingerprint(tiny_bert) == fingerprint(copy) != fingerprint(swapped)

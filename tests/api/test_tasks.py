"""Modules of one's own, and data that is in memory, in the tasks that take them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.api.conftest import best_bits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import porism
from porism.errors import DataError, PorismError, ShapeError
from porism.runs.recipe import with_fields
from porism.tasks.images.data import load_images
from porism.tasks.language.task import Language
from porism.training.own_model import DataInfo, OwnModel
from porism.training.task import UserObjects

SHORT: dict[str, Any] = {"epochs": 1, "threads": 1, "device": "cpu", "precision": "fp32", "progress": False}


class Bigram(nn.Module):
    """The next token from the last one alone."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, vocabulary)

    def forward(self, tokens: Tensor) -> Tensor:
        logits: Tensor = self.table(tokens)
        return logits


def bigram(info: DataInfo) -> nn.Module:
    assert info.vocab_size is not None
    return Bigram(info.vocab_size)


def convolution(info: DataInfo) -> nn.Module:
    assert info.in_channels is not None
    assert info.num_classes is not None
    return nn.Sequential(
        nn.Conv2d(info.in_channels, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, info.num_classes)
    )


class Aggregate(nn.Module):
    """The sum over neighbours, then a linear layer."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__()
        assert info.num_features is not None
        assert info.num_classes is not None
        self.linear = nn.Linear(info.num_features, info.num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        source, target = edge_index
        summed = x.index_add(0, target, x[source])
        logits: Tensor = self.linear(summed)
        return logits


@pytest.fixture(scope="module")
def language(text: str, tmp_path_factory: pytest.TempPathFactory) -> porism.Run:
    out = tmp_path_factory.mktemp("language") / "run"
    return porism.train("language", data=text, model=bigram, out=out, batch_size=4, seq_len=5, **SHORT)


def test_a_language_model_of_your_own(language: porism.Run, text: str) -> None:
    assert isinstance(language.model, Bigram)
    assert language.recipe.name == "bigram"
    again = porism.load(language.path)
    assert again.evaluate() == language.metrics["test"]
    (one,) = again.predict("the cat", max_new_tokens=4)
    assert one.details["words"] <= 4
    assert str(again.cost.parameters) == str(language.model.table.weight.numel())


def test_a_language_model_of_your_own_generates_from_a_window(text: str) -> None:
    recipe = with_fields(Language.recipes["elman"], {"seq_len": 3, "batch_size": 2})
    task = Language.load(recipe, text)
    seen: list[int] = []

    class Watched(Bigram):
        def forward(self, tokens: Tensor) -> Tensor:
            seen.append(len(tokens))
            return super().forward(tokens)

    task.user_objects = UserObjects(model=OwnModel.of(Watched(len(task.vocabulary))))
    task.predict(task.new_model(), ["the cat sees"], {"max_new_tokens": 5})
    assert seen[0] == 4
    assert set(seen[1:]) <= {3}


def test_evaluating_another_text_keeps_the_vocabulary(language: porism.Run, text: str, tmp_path: Path) -> None:
    words = Path(text).read_text()
    assert language.evaluate(text) == language.evaluate([words])
    assert language.evaluate(text, split="valid") == language.evaluate(text)
    # A word that the text has once is known all the same, where the run knows it.
    once, unknown = (f"the cat {word} the\n" + "the cat sees\n" * 40 for word in ("dog", "zebra"))
    assert language.evaluate([once]) != language.evaluate([unknown])
    (tmp_path / "once.txt").write_text(once)
    assert language.evaluate(tmp_path / "once.txt") == language.evaluate([once])


def test_texts_are_the_data_of_language(text: str, tmp_path: Path) -> None:
    lines = Path(text).read_text().splitlines()
    given = {"batch_size": 4, "seq_len": 5, "hidden_size": 5, "embedding_dim": 5, **SHORT}
    of_list = porism.train("language", "elman", data=lines, out=tmp_path / "list", **given)
    of_file = porism.train("language", "elman", data=text, out=tmp_path / "file", **given)
    assert best_bits(of_list.path) == best_bits(of_file.path)
    splits = {"train": lines[:20], "valid": lines[20:30], "test": lines[30:]}
    assert set(porism.train("language", data=splits, fast_dev_run=True, **given).metrics) == set(splits)


def test_images_of_your_own(tmp_path: Path) -> None:
    digits = load_images()
    (X, y), (V, w) = digits.splits["train"], digits.splits["valid"]
    loaders = {
        "train": DataLoader(TensorDataset(X[:64], y[:64]), batch_size=16, shuffle=True),
        "valid": DataLoader(TensorDataset(V[:32] / 255, w[:32])),
    }
    run = porism.train("images", model=convolution, data=loaders, out=tmp_path / "run", **SHORT)
    assert set(run.metrics) == {"train", "valid"}
    assert isinstance(run.model, nn.Sequential)
    assert run.recipe.batch_size == 16
    measured = run.evaluate({"train": (X[:64], y[:64]), "valid": (V[:32].numpy(), w[:32])}, split="valid")
    assert measured == run.metrics["valid"]
    with pytest.raises(DataError, match="and the run's"):
        run.evaluate((X[:32, :, :6], y[:32]))


def test_a_graph_in_memory_and_a_model_of_your_own(tmp_path: Path) -> None:
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 5, generator=draw) + 2 * y[:, None]
    source = torch.arange(60)
    edge_index = torch.cat([torch.stack([source, (source + 2) % 60]), torch.stack([(source + 2) % 60, source])], 1)
    data = SimpleNamespace(x=x, y=y, edge_index=edge_index, num_nodes=60)
    run = porism.train("graphs", model=Aggregate, data=data, out=tmp_path / "run", **{**SHORT, "epochs": 60})
    assert run.metrics["test"]["accuracy"] > 0.8
    assert isinstance(run.model, Aggregate)
    with pytest.raises(DataError, match="was given in Python"):
        porism.load(run.path, model=Aggregate).evaluate()


def test_words_have_vectors(text: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(Path(text).read_text() * 8)
    given = {"vector_size": 8, "batch_size": 200, "validation_split": 0.1, **SHORT}
    run = porism.train("words", "full", data=tmp_path / "text.txt", out=tmp_path / "run", **given)
    assert run.vectors["cat"].shape == (8,)
    (nearest,) = run.vectors.most_similar("cat", topn=1)
    assert f"-> {nearest[0]} {nearest[1]:.3f}" in run.predict("cat")[0].output


WRONG: dict[str, tuple[type[PorismError], str, dict[str, Any]]] = {
    "shape of language": (ShapeError, "expected (20, 16,", {"task": "language", "model": nn.Embedding(9000, 3)}),
    "shape of graphs": (
        ShapeError,
        "the model's output is (34, 3), expected (34, 2)",
        {"task": "graphs", "model": lambda info: Aggregate(DataInfo(num_features=info.num_features, num_classes=3))},
    ),
    "field of our models": (PorismError, "hidden_size is of the recipes' models", {"task": "images", "hidden_size": 3}),
    "texts": (DataError, "a int, expected a path, a known name, or a list of texts", {"task": "language", "data": 5}),
    "pixels": (
        DataError,
        "pixels from -1 to 2, expected bytes",
        {"task": "images", "data": (torch.tensor([-1.0, 2.0] * 8).view(4, 1, 2, 2), torch.arange(4))},
    ),
    "speech": (DataError, "speech: data is a list, expected a path", {"task": "speech", "data": [1], "model": None}),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_does_not_fit_is_refused(wrong: str, tmp_path: Path) -> None:
    kind, words, given = WRONG[wrong]
    with pytest.raises(kind) as raised:
        porism.train(**{"model": convolution, "out": tmp_path / "run", **SHORT, **given})
    assert words in str(raised.value)
    assert not (tmp_path / "run").exists()

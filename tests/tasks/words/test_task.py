"""Training from a text to vectors: what it learns, that it repeats, and that it goes on where it stopped."""

from pathlib import Path
from typing import Any

import pytest
import torch

from porism.errors import DataError, Interrupted, RecipeError
from porism.layers.skipgram import SkipGram
from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.words.recipes import EXPERIMENTS, RECIPES
from porism.tasks.words.task import Words
from porism.training import session
from porism.training.loop import Training, evaluate
from porism.training.progress import NoProgress
from porism.training.request import TrainingRequest

TINY = ["vector_size=10", "epochs=3", "batch_size=2000", "sample=0", "learning_rate=0.05"]


def begin(source: Path, out: Path, *settings: str, recipe: str = "small", threads: int = 1) -> Training:
    chosen = override(RECIPES[recipe], [*TINY, *settings])
    return session.begin(TrainingRequest(Words, chosen, source=str(source), device="cpu", seed=3, threads=threads), out)


def vectors(training: Training) -> torch.Tensor:
    model = training.model
    assert isinstance(model, SkipGram)
    return torch.cat([model.weight, model.context_weight]).detach().clone()


def trained(*arguments: Any, **options: Any) -> torch.Tensor:
    training = begin(*arguments, **options)
    training.fit()
    return vectors(training)


def test_what_is_scored_depends_on_vocabulary_and_pairs(grammar: Path) -> None:
    """Numbers on other pairs, or among other words, are not comparable; how long a model trains changes neither."""
    settings = ("epochs=1", "epochs=2", "min_count=500", "window=2", "sample=0.001", "vector_size=5")
    tasks = [Words.load(override(RECIPES["small"], [*TINY, one]), str(grammar)) for one in settings]
    usual, longer, *others, narrow = [task.evaluation_id() for task in tasks]
    assert longer == usual == narrow
    assert len({usual, *others}) == 4
    assert len({task.fingerprint() for task in tasks}) == 1


def test_the_pairs_that_are_scored_are_of_all_that_is_held_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of its beginning: the cat is in the first half of test, the saw in the second."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("the cat eats\n" * 500 + "the saw rusts\n" * 500)
    monkeypatch.setattr("porism.tasks.words.task.MOST_PAIRS", 100)
    task = Words.load(override(RECIPES["small"], TINY), str(tmp_path))
    pairs = task._pairs("test")
    assert len(pairs) == 100
    of_saw = (pairs == task.vocabulary.words.index("saw")).any(1) | (pairs == task.vocabulary.words.index("rusts")).any(
        1
    )
    assert 30 <= int(of_saw.sum()) <= 70


def test_pairs_of_one_passage_are_one_example(tmp_path: Path) -> None:
    """Test begins with 50 passages of what train has, and ends with as many of what it has not: that is told apart."""
    for split in ("train", "valid", "test"):
        other = "" if split == "train" else "rake pig spade cow axe\n" * 500
        (tmp_path / f"{split}.txt").write_text("pig cow\nrake axe\nspade axe\n" * 900 + other)
    training = begin(tmp_path, tmp_path / "run", "epochs=2")
    training.fit()
    scores = training.task.example_scores(training.model, "test")
    assert scores is not None
    assert scores.unit == "passage of 50 words"
    means = [total / count for total, count in zip(scores.numerators, scores.denominators, strict=True)]
    middle = len(means) * 3 // 5
    assert max(means[: middle // 2]) < min(means[-middle // 4 :])


def test_the_same_pairs_among_more_words_are_another_evaluation(tmp_path: Path) -> None:
    """A word that only train has makes the softmax one over more words, and no pair another."""
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("the cat sat and the dog ran\n" * 9 + "axolotl\n" * (split == "train"))
    few, more = (
        Words.load(override(RECIPES["small"], [*TINY, f"min_count={least}"]), str(tmp_path)) for least in (2, 1)
    )
    assert len(more.vocabulary) == len(few.vocabulary) + 1
    assert all(torch.equal(more._pairs(split), few._pairs(split)) for split in ("valid", "test"))
    assert more.evaluation_id() != few.evaluation_id()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("recipe", ["small", "full", "sampled-softmax"])
def test_words_of_one_kind_come_together(grammar: Path, tmp_path: Path, recipe: str) -> None:
    settings = [] if recipe == "small" else ["batch_size=200", "learning_rate=0.01"]
    training = begin(grammar, tmp_path, "epochs=4", *settings, recipe=recipe)
    before = evaluate(training.task, training.model, "valid")["cross_entropy"]
    training.fit()
    assert evaluate(training.task, training.model, "valid")["cross_entropy"] < before - 0.2
    near = training.task.predict(training.model, ["cat", "spade"], {"count": 3})
    found = [{one["word"] for one in answer.details["neighbours"]} for answer in near]
    assert found == [{"dog", "cow", "pig"}, {"saw", "axe", "rake"}]


def test_deterministic_training_gives_the_same_bits_on_any_number_of_threads(grammar: Path, tmp_path: Path) -> None:
    first, again, two = (
        trained(grammar, tmp_path / str(n), "deterministic=true", threads=threads)
        for n, threads in enumerate((1, 1, 2))
    )
    assert torch.equal(first, again)
    assert torch.equal(first, two)
    assert not torch.equal(first, trained(grammar, tmp_path / "other", "deterministic=true", "window=4"))


class _Stopper(NoProgress):
    """Presses Ctrl-C after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def step(self, units: int) -> None:
        self.left -= 1
        if self.left == 0:
            import os
            import signal

            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("recipe", ["deterministic", "sampled-softmax"])
def test_an_interrupted_run_goes_on_as_if_it_had_not_been(grammar: Path, tmp_path: Path, recipe: str) -> None:
    straight = trained(grammar, tmp_path / "straight", recipe=recipe)
    stopped = begin(grammar, tmp_path / "stopped", recipe=recipe)
    with pytest.raises(Interrupted):
        stopped.fit(_Stopper(len(stopped.task.batches(1, 3)) + 2))
    resumed = session.reopen(Words, RunFolder.open(tmp_path / "stopped"))
    assert (resumed.position.epoch, resumed.position.step) == (2, 2)
    resumed.fit()
    assert torch.equal(vectors(resumed), straight)


def test_a_text_that_is_read_anew_trains_the_same(
    grammar: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = trained(grammar, tmp_path / "kept", "deterministic=true")
    # As if no text fitted.
    monkeypatch.setattr("porism.tasks.words.data.corpus.BYTES_A_TOKEN", 2**40)
    assert torch.equal(kept, trained(grammar, tmp_path / "anew", "deterministic=true"))


def test_the_rate_of_words_counts_all_of_the_text(grammar: Path, tmp_path: Path) -> None:
    training = begin(grammar, tmp_path, "min_count=1200")
    training.fit()
    task = training.task
    assert isinstance(task, Words)
    # Rare words have no vector, and are read all the same.
    assert len(task.vocabulary) < 10
    assert training.position.all_units == 3 * task.corpus.words == 3 * 5 * 3920


def test_judgements_are_among_the_metrics_of_test(grammar: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    folder.mkdir()
    (folder / "wordsim353.tsv").write_text("# a\tb\tmean\ncat\tdog\t9\ncat\tsaw\t1\naxe\trake\t8\n")
    training = begin(grammar, tmp_path / "run", f"evaluation_data={folder}", "epochs=4")
    training.fit()
    found = evaluate(training.task, training.model, "test")
    assert found["wordsim353"] > 0.4
    assert "wordsim353" not in evaluate(training.task, training.model, "valid")
    titles = [exhibit.title for exhibit in training.task.exhibits(training.model)]
    assert "Correlation with human similarity ratings" in titles
    assert "Most similar words" in titles
    with pytest.raises(DataError, match=r"nowhere: no such folder. Give evaluation_data a folder"):
        begin(grammar, tmp_path / "other", "evaluation_data=nowhere")


def test_an_estimator_tells_how_far_its_gradient_is_off(grammar: Path) -> None:
    found = {}
    for name in ("full", "importance", "sampled-softmax"):
        task = Words.load(override(RECIPES[name], TINY), str(grammar))
        torch.manual_seed(1)
        model = task.build()
        torch.nn.init.normal_(model.context_weight)
        torch.nn.init.normal_(model.weight)
        found[name] = evaluate(task, model, "test")
    assert found["full"]["gradient_bias"] == found["full"]["gradient_deviation"] == 0
    assert found["importance"]["gradient_bias"] < 1e-6 < found["importance"]["gradient_deviation"]
    assert found["sampled-softmax"]["gradient_bias"] > 0.01


def test_the_question_asks_every_estimator() -> None:
    estimators = EXPERIMENTS["estimators"].recipes
    assert [RECIPES[name].estimator for name in estimators] == list(estimators)
    alike = {override(RECIPES[name], ["estimator=full"]).optimizer for name in estimators}
    assert alike == {"adam"}


@pytest.mark.parametrize(
    ("recipe", "setting", "message"),
    [
        ("small", "lr_scheduler=cosine", "takes lr_scheduler=linear or constant"),
        ("small", "max_grad_norm=1", "no warmup_steps, weight_decay or max_grad_norm"),
        (
            "full",
            "deterministic=true",
            "deterministic is for estimator=negative with optimizer=sgd, got full with adam",
        ),
        ("small", "validation_split=0.3", r"validation_split=0.3 cannot be: expected float <= 0.25"),
        ("small", "estimator=softmax", "estimator=softmax cannot be"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(recipe: str, setting: str, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        override(RECIPES[recipe], [setting])

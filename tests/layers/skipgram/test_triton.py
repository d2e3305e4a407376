"""The kernel against plain Python, in Triton's interpreter where there is no GPU."""

import numpy as np
import pytest
import torch
from tests import needs
from tests.tasks.words.model.reference import trained
from tests.tasks.words.model.test_trainer import V, text, trainer

from porism.errors import RecipeError
from porism.tasks.words.model.trainer import Trainer

needs.triton()
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _kernels_take_the_tensors_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "_by_numba", Trainer._by_triton)


def on_device(made: Trainer) -> Trainer:
    made.words, made.contexts = made.words.to(DEVICE), made.contexts.to(DEVICE)
    return made


@pytest.mark.sweep(3)
@pytest.mark.parametrize("width", [1, 7, 63])
@pytest.mark.parametrize(("window", "negatives", "draws"), [(5, 5, 2), (1, 1, 1), (2, 7, 3)])
def test_one_walk_equals_plain_python(
    monkeypatch: pytest.MonkeyPatch, width: int, window: int, negatives: int, draws: int
) -> None:
    monkeypatch.setattr(Trainer, "_streams", lambda self: 1)
    tokens = text(60)
    ours = trainer(tokens, width, window=window, negatives=negatives, draws=draws)
    # A row that a word reaches twice is read once: so is a block of one word.
    words, contexts = trained(ours, tokens.tolist(), block=1)
    progress = on_device(ours).train(tokens)
    assert np.abs(ours.words.cpu().numpy() - words).max() < 1e-5
    assert np.abs(ours.contexts.cpu().numpy() - contexts).max() < 1e-5
    assert progress.tokens == int((tokens >= 0).sum())
    assert progress.pairs > 0


def test_walks_drop_and_draw_what_one_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a rate of next to nothing nobody's changes matter, and all walks together see what one sees."""
    tokens, found = text(150), []
    for walks in (1, 4):
        monkeypatch.setattr(Trainer, "_streams", lambda self, walks=walks: walks)
        found.append(on_device(trainer(tokens, rate=1e-12, last_rate=1e-12)).train(tokens))
    assert found[0].pairs == found[1].pairs
    assert found[0].kept == found[1].kept
    assert found[0].loss == pytest.approx(found[1].loss, rel=1e-6)


def test_a_chunk_of_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Trainer, "_streams", lambda self: 2)
    assert on_device(trainer(text(50))).train(text(50)[:0]).pairs == 0


def test_ends_of_sentences_alone_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """So kernels are compiled before the clock starts."""
    monkeypatch.setattr(Trainer, "_streams", lambda self: 2)
    made = on_device(trainer(text(50)))
    made.contexts += 1
    before = made.words.clone(), made.contexts.clone()
    result = made.train(torch.full((2,), -1, dtype=torch.int32))
    assert (result.tokens, result.kept, result.pairs, made.done) == (0, 0, 0, 0)
    assert torch.equal(made.words, before[0])
    assert torch.equal(made.contexts, before[1])


@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
def test_the_same_bits_are_not_promised_on_a_gpu() -> None:
    with pytest.raises(RecipeError, match="deterministic is for a CPU"):
        Trainer.fresh(np.ones(V, np.int64), 8, 10, device="cuda", deterministic=True)

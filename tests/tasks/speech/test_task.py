"""The task as a whole: training, exhibits, and files of all kinds."""

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch

from porism.errors import DataError, RecipeError
from porism.runs.exhibits import Pictures, Sounds, Table
from porism.runs.recipe import override
from porism.tasks.speech.data.recordings import Recordings, Utterance
from porism.tasks.speech.data.symbols import decode
from porism.tasks.speech.exhibits.alignment import alignment, monotonicity
from porism.tasks.speech.exhibits.transcripts import WIDEST
from porism.tasks.speech.metric import measure
from porism.tasks.speech.recipes import EXPERIMENTS, PUBLISHED_SPLIT, RECIPES
from porism.tasks.speech.task import Speech, reference_facts
from porism.training.loop import answering
from porism.training.request import TrainingRequest
from porism.training.session import begin, complete

RATE = 16_000
TEXTS = ("ab", "ba", "aab", "bab", "abba", "b", "a", "baa")
SMALL = [
    "hidden_size=16",
    "num_heads=2",
    "dim_feedforward=16",
    "num_layers=1",
    "batch_size=4",
    "epochs=1",
    "num_buckets=2",
    "warmup_steps=0",
]


def tones(text: str, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A language of tones: a is low, b is high, with a pause between them."""
    draw = np.random.default_rng(seed)
    time = np.arange(int(0.08 * RATE)) / RATE
    pause = np.zeros(int(0.04 * RATE))
    notes = [part for c in text for part in (np.sin(2 * math.pi * {"a": 500, "b": 2500}[c] * time), pause)]
    whole = np.concatenate([pause, *notes])
    return 0.2 * whole + 0.003 * draw.standard_normal(len(whole))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings in the language of tones, with lists."""
    folder = tmp_path_factory.mktemp("tones")
    seeds = itertools.count()
    for split, count in (("train", 96), ("valid", 4), ("test", 6)):
        lines: list[str] = []
        for number in range(count):
            text = TEXTS[number % len(TEXTS)]
            soundfile.write(folder / f"{split}{number}.wav", tones(text, next(seeds)), RATE)
            lines.append(f"{split}{number}.wav\t{text}\n")
        (folder / f"{split}.tsv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def make(folder: Path) -> Callable[..., Speech]:
    def made(name: str, *changes: str) -> Speech:
        return Speech.load(override(RECIPES[name], [*SMALL, *changes]), str(folder))

    return made


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["joint", "lstm-ljspeech", "an4-best"])
def test_a_run_comes_to_its_end_and_shows_what_it_can(name: str, folder: Path, tmp_path: Path) -> None:
    recipe = override(RECIPES[name], [*SMALL, "beam_size=2"])
    result = complete(begin(TrainingRequest(Speech, recipe, source=str(folder), device="cpu"), tmp_path / "run"))
    for split in ("train", "valid", "test"):
        assert {"cer", "wer", "loss", "jaccard", "word_cosine"} <= result["metrics"][split].keys()
        # Smoothed labels have a floor.
        assert result["metrics"][split]["loss"] > result["limit"][split]["loss"] > 0
    assert result["facts"]["decoder parameters"] > 0
    assert len(result["samples"]) == 5


@pytest.mark.sweep(0)
def test_the_language_of_tones_is_learned(make: Callable[..., Speech]) -> None:
    task = make("joint", "batch_size=8", "search=ctc")
    torch.manual_seed(1)
    model = task.build()
    learning = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(1, 26):
        for batch in task.batches(epoch, 1):
            loss, _ = task.loss(model, batch, {})
            learning.zero_grad()
            loss.backward()
            learning.step()
    with answering(model):
        assert task.evaluate(model, "test")["cer"] < 0.1
        assert sum(task.outcomes(model, "test")) >= 5


def test_the_exhibits_are_metrics_sounds_spectrograms_and_alignments(make: Callable[..., Speech]) -> None:
    task = make("joint")
    model = task.build()
    with answering(model):
        shown = task.exhibits(model)
    metrics, kinds, sounds, spectrograms, alignments, worst = shown
    assert isinstance(metrics, Table)
    assert [row[0] for row in metrics.rows][:2] == ["cer", "wer"]
    assert all(row[2] <= row[1] <= row[3] for row in metrics.rows)  # type: ignore[operator]
    cer, *_ = (row[1] for row in metrics.rows)
    assert isinstance(kinds, Table)
    assert sum(row[2] for row in kinds.rows) == pytest.approx(100 * cer)  # type: ignore[misc]
    assert isinstance(sounds, Sounds)
    assert [clip.caption.split("\n")[0] for clip in sounds.clips] == [f"reference: {text}" for text in TEXTS[:4]]
    assert all(clip.sound.startswith(b"RIFF") for clip in sounds.clips)
    assert isinstance(spectrograms, Pictures)
    assert all(one.height == 80 and one.width <= WIDEST for one in spectrograms.pictures)
    assert isinstance(alignments, Pictures)
    assert len(alignments.pictures) == 4
    assert isinstance(worst, Table)


def test_an_alignment_has_a_row_a_symbol_and_one_for_the_eos(make: Callable[..., Speech]) -> None:
    task = make("attention")
    model = task.build().eval()
    example = task.examples("test")[2]
    weights = alignment(model, example, [9, 9, 10])
    assert weights.shape == (4, -(-len(example.features[0]) // 2))
    torch.testing.assert_close(weights.sum(1), torch.ones(4))
    assert monotonicity(torch.eye(5)) == 1
    assert monotonicity(torch.eye(5).flip(0)) == 0


def test_masks_and_dropout_are_for_training_only(make: Callable[..., Speech]) -> None:
    task = make("joint", "num_freq_mask=2", "num_time_mask=2", "time_mask_width_ratio=0.3", "dropout=0.2")
    model = task.build()
    batch = task.batches(1, 1)[0]
    with torch.no_grad():
        model.train()
        assert task.loss(model, batch, {})[0] != task.loss(model, batch, {})[0]
        model.eval()
        assert task.loss(model, batch, {})[0] == task.loss(model, batch, {})[0]


def test_speeds_are_for_training_only(make: Callable[..., Speech]) -> None:
    task = make("joint", "speed_perturb=0.1")
    plain, slow, fast = (len(x) for x in task.examples("train")[0].features)
    assert slow / plain == pytest.approx(1 / 0.9, abs=0.05)
    assert fast / plain == pytest.approx(1 / 1.1, abs=0.05)
    assert len(task.examples("test")[0].features) == 1


def test_the_published_protocol_pads_every_text(make: Callable[..., Speech]) -> None:
    task = make("attention-ljspeech")
    assert {batch[2].shape[1] for batch in task.batches(1, 1)} == {99}
    assert task.published() == {}
    task._recordings = Recordings(
        "as many", {split: [Utterance("", "", Path())] * n for split, n in PUBLISHED_SPLIT.items()}
    )
    assert task.published()["test"]["jaccard"] == 0.764
    task.recipe = override(task.recipe, ["scoring=whole"])
    assert task.published() == {}
    assert sum(PUBLISHED_SPLIT.values()) == 13_100
    steps = -(-PUBLISHED_SPLIT["train"] // RECIPES["attention-ljspeech"].batch_size)
    assert RECIPES["attention-ljspeech"].warmup_steps == 2 * steps


def test_whole_references_are_scored_unless_the_published_protocol_is_asked_for(make: Callable[..., Speech]) -> None:
    whole = make("attention", "max_target_length=2")
    cut = Speech(override(whole.recipe, ["scoring=published"]), whole.assets(), whole.recordings)
    assert [example.text for example in whole.examples("test")] == list(TEXTS[:6])
    assert [example.text for example in cut.examples("test")] == [text[:2] for text in TEXTS[:6]]
    # What the model reads is the same, and so is its loss.
    pairs = zip(whole.examples("test"), cut.examples("test"), strict=True)
    assert all(torch.equal(ours.tokens, theirs.tokens) for ours, theirs in pairs)
    # aab, bab and abba of six texts with 15 characters.
    beyond = "test texts beyond 2 characters"
    assert whole.facts()[beyond] == "3 of 6, 26.7% of all characters, counted as errors"
    assert cut.facts()[beyond] == "3 of 6, 26.7% of all characters, not scored"
    assert reference_facts(whole.recordings, override(whole.recipe, ["max_target_length=9"])) == {}
    # Told once.
    assert [fact for name, fact in whole.facts().items() if "are in train" in name] == ["6 of 6"]


def test_a_character_outside_the_alphabet_is_an_error(folder: Path, tmp_path: Path) -> None:
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.tsv").write_text(f"{folder / split}0.wav\tDon't!\n")
    whole, published = (
        Speech.load(override(RECIPES["attention"], [*SMALL, f"scoring={scoring}"]), str(tmp_path))
        for scoring in ("whole", "published")
    )
    (example,) = whole.examples("test")
    best = decode(example.tokens.tolist())
    assert measure([example.text], [best])["cer"] == 2 / 6
    assert measure([published.examples("test")[0].text], [best])["cer"] == 0
    assert whole.facts()["test characters outside the alphabet"] == "2 of 6, counted as errors"
    assert published.facts()["test characters outside the alphabet"] == "2 of 6, one symbol for all"
    assert whole.vocabulary == {"don't!"}


def test_the_question_is_about_the_decoder_alone() -> None:
    lstm, attention, joint = (RECIPES[name] for name in EXPERIMENTS["decoder-question"].recipes)
    assert override(lstm, ["decoder=attention"]) == override(
        lstm.__class__(**{**attention.__dict__, "name": lstm.name, "description": lstm.description}), []
    )
    assert joint.ctc_weight > attention.ctc_weight == lstm.ctc_weight == 0
    assert {recipe.guided_attention_weight for recipe in (lstm, attention, joint)} == {1.0}


def test_a_recording_of_any_kind_is_transcribed(make: Callable[..., Speech], tmp_path: Path) -> None:
    task = make("joint")
    model = task.build().eval()
    stereo = np.stack([tones("abab", 1)] * 2, 1)
    for name, rate in (("a.wav", 44_100), ("b.flac", 8000), ("c.ogg", 22_050), ("d.mp3", 32_000)):
        soundfile.write(tmp_path / name, stereo, rate)
        (sample,) = task.predict(model, [str(tmp_path / name)], {})
        assert sample.prompt == str(tmp_path / name)
        assert "2 channels mixed down" in sample.notes
        assert f"resampled from {rate} Hz" in sample.notes


def test_a_long_recording_is_transcribed_in_segments(make: Callable[..., Speech], tmp_path: Path) -> None:
    task = make("joint")
    model = task.build().eval()
    soundfile.write(tmp_path / "long.wav", tones("ab" * 20, 1), RATE)
    (sample,) = task.predict(model, [str(tmp_path / "long.wav")], {})
    longest = task.assets()["seconds"]
    segments = sample.details["pieces"]
    assert len(segments) >= 40 * 0.12 / longest
    note = f"transcribed in {len(segments)} segments of at most {longest:.1f} s, cut at pauses"
    assert sample.notes == (note,)
    assert sample.output == " ".join(text for text in segments if text)


def test_a_search_is_chosen_by_options(make: Callable[..., Speech], folder: Path) -> None:
    task = make("joint")
    model = task.build().eval()
    file = [str(folder / "test0.wav")]
    for options in ({"search": "ctc"}, {"beam": 3}, {"beam_size": 2, "length_bonus": 0.5}, {"ctc_weight": 0.2}):
        assert task.predict(model, file, options)[0].prompt == file[0]
    with pytest.raises(RecipeError, match=r"transcribing has no option 'bean_size'. Did you mean beam_size\?"):
        task.predict(model, file, {"bean_size": 3})
    with pytest.raises(RecipeError, match=r"transcribing: beam_size takes a whole number from 1 on, got 0"):
        task.predict(model, file, {"beam": 0})
    with pytest.raises(RecipeError, match=r"transcribing: search takes greedy, ctc or beam, got 'deep'"):
        task.predict(model, file, {"search": "deep"})


def test_bad_files_are_named(make: Callable[..., Speech], tmp_path: Path) -> None:
    task = make("joint")
    (tmp_path / "empty.wav").touch()
    with pytest.raises(DataError, match=r"empty.wav: empty, 0 bytes"):
        task.predict(task.build().eval(), [str(tmp_path / "empty.wav")], {})


def test_heads_must_share_the_width() -> None:
    refusal = r"recipe joint: hidden_size=10 does not split into 4 heads. Use --set num_heads=2"
    with pytest.raises(RecipeError, match=refusal):
        override(RECIPES["joint"], ["hidden_size=10", "num_heads=4"])

"""Pretrained encoders: loaded by folder, trained, reloaded; and one clear line for what cannot be loaded."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import needs
from tests.tasks.sentiment.conftest import WriteReviews, few_reviews

from porism.cli import main
from porism.errors import DataError, MissingExtra, RecipeError
from porism.runs.recipe import override
from porism.runs.run import RunFolder
from porism.tasks.sentiment.data.tokenizer import PretrainedTokenizer
from porism.tasks.sentiment.model import pretrained
from porism.tasks.sentiment.model.pretrained import load_pretrained
from porism.tasks.sentiment.recipes import RECIPES
from porism.tasks.sentiment.task import Sentiment
from porism.training.progress import NoProgress
from porism.training.session import best_checkpoint, restore_task, trained_model

needs.package("transformers", reason="the encoders are those of the transformers package")
transformers = needs.lazy("transformers")


def fine_tuning(folder: Path, *changed: str) -> list[str]:
    return [f"encoder={folder}", "max_length=16", "batch_size=8", "epochs=1", *changed]


@pytest.fixture
def task(tiny_bert: Path, write_reviews: WriteReviews) -> Sentiment:
    return Sentiment.load(override(RECIPES["bert"], fine_tuning(tiny_bert)), str(write_reviews(few_reviews())))


def test_the_states_are_those_of_transformers(tiny_bert: Path, task: Sentiment) -> None:
    """Padded texts in one batch, against the folder's own model and tokenizer, each text alone."""
    model = task.build().eval()
    words, net = (
        transformers.AutoTokenizer.from_pretrained(tiny_bert),
        transformers.AutoModel.from_pretrained(tiny_bert),
    )
    texts = ["The soup is not good!", "undone", "i love it , this very phone"]
    found = [task.tokenizer.encode(text, 16) for text in texts]
    lengths = torch.tensor([len(tokens.ids) for tokens in found])
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(tokens.ids) for tokens in found], batch_first=True)
    logits = model(ids, lengths)
    for text, tokens, row in zip(texts, found, logits, strict=True):
        expected = words(text, return_tensors="pt")
        assert tokens.ids == expected["input_ids"][0].tolist()
        assert task.tokenizer.decode(tokens.ids) == words.decode(tokens.ids, skip_special_tokens=True)
        torch.testing.assert_close(row, model.head(net.eval()(**expected).pooler_output[0]))


def test_a_long_text_keeps_its_special_tokens(task: Sentiment) -> None:
    found = task.tokenizer.encode("good " * 50, 16)
    assert (found.tokens[0], found.tokens[-1], len(found.ids), found.whole) == ("[CLS]", "[SEP]", 16, 52)


def test_it_trains_reloads_and_answers_the_same(
    tiny_bert: Path, write_reviews: WriteReviews, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = tmp_path / "encoder", tmp_path / "run"
    shutil.copytree(tiny_bert, folder)
    changed = fine_tuning(folder, "num_frozen_layers=1", "layerwise_lr_decay=0.5", "class_weight=balanced")
    assignments = [word for assignment in changed for word in ("--set", assignment)]
    source = str(write_reviews(few_reviews()))
    assert main(["train", "sentiment", "bert", "--data", source, "--out", str(out), *assignments]) == 0
    shutil.rmtree(folder)  # the run has all it needs

    run = RunFolder.open(out)
    saved = best_checkpoint(run, NoProgress())
    task = restore_task(Sentiment, run, saved)
    model = trained_model(task, saved, torch.device("cpu"))
    tensors = model.state_dict()
    before = transformers.AutoModel.from_pretrained(tiny_bert).state_dict()
    for name, x in before.items():
        is_frozen = name.startswith(("embeddings.", "encoder.layer.0."))
        assert torch.equal(tensors[f"encoder.net.{name}"], x) == is_frozen, name

    answers = task.predict(model, ["this soup is good", "it is awful"], {})
    capsys.readouterr()
    assert main(["predict", str(out), "this soup is good", "it is awful", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])["predictions"]
    assert [one["details"]["probabilities"] for one in told] == [one.details["probabilities"] for one in answers]
    words = transformers.AutoTokenizer.from_pretrained(tiny_bert)
    net = transformers.AutoModel.from_pretrained(tiny_bert)
    net.load_state_dict({name.removeprefix("encoder.net."): x for name, x in tensors.items() if "encoder.net" in name})
    pooled = net.eval()(**words("this soup is good", return_tensors="pt")).pooler_output
    probs = (pooled @ tensors["head.weight"].T + tensors["head.bias"]).double().softmax(1)[0]
    assert list(answers[0].details["probabilities"].values()) == pytest.approx(probs.tolist(), abs=1e-6)


def test_rates_fall_from_layer_to_layer(tiny_bert: Path, write_reviews: WriteReviews) -> None:
    recipe = override(RECIPES["bert"], fine_tuning(tiny_bert, "layerwise_lr_decay=0.5", "num_frozen_layers=1"))
    task = Sentiment.load(recipe, str(write_reviews(few_reviews())))
    model = task.build()
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    scales = {
        names[id(parameter)]: group.lr_scale
        for group in model.parameter_groups(recipe.layerwise_lr_decay)
        for parameter in group.parameters
    }
    assert set(scales) == set(names.values())
    assert scales["head.weight"] == scales["encoder.net.pooler.dense.weight"] == 1
    assert scales["encoder.net.encoder.layer.1.output.dense.weight"] == 0.5
    assert scales["encoder.net.encoder.layer.0.output.dense.weight"] == 0.25
    assert scales["encoder.net.embeddings.word_embeddings.weight"] == 0.125
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert {name for name in scales if scales[name] >= 0.5} == trained


def test_attention_over_the_words_sums_to_one(task: Sentiment) -> None:
    model = task.build().eval()
    ids = torch.tensor([task.tokenizer.encode("the soup is good", 16).ids])
    weights = model.encoder.word_weights(ids, torch.zeros_like(ids, dtype=torch.bool))
    torch.testing.assert_close(weights.sum(1), torch.ones(1))


def test_a_masked_language_model_lacks_a_pooler_and_that_is_said(tiny_bert: Path, tmp_path: Path) -> None:
    shutil.copytree(tiny_bert, tmp_path, dirs_exist_ok=True)
    config = transformers.AutoConfig.from_pretrained(tiny_bert)
    transformers.BertForMaskedLM(config).save_pretrained(tmp_path)
    assert load_pretrained(str(tmp_path), 16).new == ("pooler.dense.bias", "pooler.dense.weight")


def gpt2(folder: Path) -> None:
    config = transformers.GPT2Config(vocab_size=28, n_embd=16, n_layer=1, n_head=2, n_positions=32)
    transformers.GPT2Model(config).save_pretrained(folder)


def t5(folder: Path) -> None:
    config = transformers.T5Config(vocab_size=28, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    transformers.T5Model(config).save_pretrained(folder)


def broken(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"no weights")


def without(name: str) -> Any:
    return lambda folder: (folder / name).unlink()


def of_another_model(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "num_hidden_layers": 3}))


def larger_vocabulary(folder: Path) -> None:
    words = transformers.AutoTokenizer.from_pretrained(folder)
    words.add_tokens(["soup number"])
    words.save_pretrained(folder)


BAD = {
    "causal": (gpt2, "the first token of a gpt2 attends to no other"),
    "decoder": (t5, "a t5 model, expected an encoder of text"),
    "broken weights": (broken, "cannot be loaded"),
    "no weights": (without("model.safetensors"), "cannot be loaded"),
    "no config": (without("config.json"), "no config.json in this folder"),
    "weights missing": (of_another_model, "its weights lack 16 of the encoder"),
    "tokenizer too large": (larger_vocabulary, "its tokenizer has 29 tokens, its embedding 28"),
}


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_what_is_no_encoder_is_refused(tiny_bert: Path, tmp_path: Path, spoil: Any, message: str) -> None:
    folder = tmp_path / "spoiled"
    shutil.copytree(tiny_bert, folder)
    spoil(folder)
    with pytest.raises(DataError, match=message) as caught:
        load_pretrained(str(folder), 16)
    assert str(folder) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_tokens_than_positions_are_refused(tiny_bert: Path) -> None:
    with pytest.raises(RecipeError, match="32 positions, got max_length=33. Use --set max_length=32."):
        load_pretrained(str(tiny_bert), 33)


def test_a_length_without_room_for_words_is_refused(tiny_bert: Path) -> None:
    with pytest.raises(RecipeError, match="max_length=2 leaves no room for words. Use 3 or more."):
        load_pretrained(str(tiny_bert), 2)


def test_more_frozen_layers_than_there_are(tiny_bert: Path, write_reviews: WriteReviews) -> None:
    recipe = override(RECIPES["bert"], fine_tuning(tiny_bert, "num_frozen_layers=3"))
    with pytest.raises(RecipeError, match="num_frozen_layers=3, and the encoder has 2 layers"):
        Sentiment.load(recipe, str(write_reviews(few_reviews()))).build()


def test_a_name_without_a_network_is_one_line(
    write_reviews: WriteReviews, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody answers there
    monkeypatch.setattr(pretrained, "_is_cached", lambda name: False)
    source = str(write_reviews(few_reviews()))
    assert main(["train", "sentiment", "bert", "--data", source, "--out", str(tmp_path / "run")]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert "encoder bert-base-cased: not on this machine, and http://127.0.0.1:9 cannot be reached" in lines[0]
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["./nowhere", "no/such/folder"])
def test_a_folder_that_is_not_there(name: str) -> None:
    with pytest.raises(DataError, match=f"{name}: no folder of that name"):
        load_pretrained(name, 16)


@pytest.mark.parametrize("package", ["transformers", "tokenizers"])
def test_without_transformers_one_line_says_so(package: str, monkeypatch: pytest.MonkeyPatch, task: Sentiment) -> None:
    saved = task.tokenizer.to_json()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        MissingExtra, match=r"needs transformers, which is not installed: pip install \"porism\[text\]\""
    ):
        load_pretrained("anything", 16) if package == "transformers" else PretrainedTokenizer.from_json(saved)

"""Pretrained encoders of transformers, by their name on the hub or by a local folder.

What is loaded is kept whole: the configuration and the tokenizer go into every checkpoint beside the weights, so a
trained model needs neither the hub nor the folder any more.
"""

import logging
import os
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from porism.errors import DataError, RecipeError, advise, fields, one_line
from porism.tasks.sentiment.data.tokenizer import PretrainedTokenizer, missing_transformers
from porism.tasks.sentiment.model.base import Encoded, TextEncoder

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

HUB = "https://huggingface.co"
TIMEOUT_SECONDS = 10
MAY_BE_NEW = "pooler."
"""Weights that a checkpoint may lack, as that of a masked language model does. They are drawn, and a note says so."""

CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "bert-base-cased": {"model_type": "bert", "vocab_size": 28_996},
}
"""Of encoders whose size is known without the hub: what differs from the defaults of their kind."""


class PretrainedEncoder(TextEncoder):
    """An encoder of transformers. Its pooled output is its pooler's, or the state of the first token without one.

    Shapes: tokens (B, T), padding (B, T) -> hidden (B, T, H), pooled (B, H).
    """

    def __init__(self, config: "PretrainedConfig") -> None:
        super().__init__()
        transformers = _transformers()
        self.net: PreTrainedModel = transformers.AutoModel.from_config(config)
        self.width = int(config.hidden_size)

    def forward(self, tokens: Tensor, padding: Tensor) -> Encoded:
        output = self.net(input_ids=tokens, attention_mask=(~padding).long())
        hidden: Tensor = output.last_hidden_state
        pooled = getattr(output, "pooler_output", None)
        return Encoded(hidden, hidden[:, 0] if pooled is None else pooled)

    def word_weights(self, tokens: Tensor, padding: Tensor) -> Tensor:
        """What the first token attends to in the last layer, the mean over its heads."""
        before = self.net.config._attn_implementation
        self.net.set_attn_implementation("eager")  # the only one that gives weights
        try:
            output = self.net(input_ids=tokens, attention_mask=(~padding).long(), output_attentions=True)
        finally:
            self.net.set_attn_implementation(before)
        weights: Tensor = output.attentions[-1][:, :, 0].mean(1)  # B A T T -> B T
        return weights

    def layers(self) -> list[list[nn.Module]]:
        stack = layer_stack(self.net)
        if stack is None:
            raise RecipeError(
                f"num_frozen_layers and layerwise_lr_decay: the layers of {type(self.net).__name__} could not be "
                "distinguished. Leave both at their defaults."
            )
        above = [module for name, module in self.net.named_children() if name == "pooler"]
        inside = {id(parameter) for module in (stack, *above) for parameter in module.parameters()}
        below = [module for module in self.net.modules() if _has_own(module, inside)]
        return [below, *([layer] for layer in stack), above]


def layer_stack(net: nn.Module) -> nn.ModuleList | None:
    """The list of a net's layers: the only one that is as long as its configuration says."""
    count = getattr(net.config, "num_hidden_layers", None)
    stacks = [module for module in net.modules() if isinstance(module, nn.ModuleList) and len(module) == count]
    return stacks[0] if len(stacks) == 1 else None


def _has_own(module: nn.Module, others: set[int]) -> bool:
    """Whether a module itself holds parameters, none of them among the others."""
    own = [id(parameter) for parameter in module.parameters(recurse=False)]
    return bool(own) and others.isdisjoint(own)


@dataclass(frozen=True, eq=False)
class Pretrained:
    """An encoder as it was loaded: its configuration, its weights, its tokenizer, and the weights it lacked."""

    config: "PretrainedConfig"
    weights: Mapping[str, Tensor]
    tokenizer: PretrainedTokenizer
    new: tuple[str, ...]


def load_pretrained(name: str, max_length: int) -> Pretrained:
    """The encoder of a folder, or of a name on the hub, which is looked for on this machine first."""
    transformers = _transformers()
    folder = Path(name).expanduser()
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise DataError(f"{name}: no config.json in this folder. Give one that save_pretrained wrote.")
        place, options = str(folder), {"local_files_only": True}
    elif folder.exists() or name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise DataError(f"{name}: no folder of that name. Give a folder that save_pretrained wrote, or a hub's name.")
    else:
        place, options = name, {"local_files_only": True}
        if not _is_cached(name):
            _check_hub(name)
            options = {}
    with _answered(name), _quiet():
        config = transformers.AutoConfig.from_pretrained(place, **options)
        net, loaded = transformers.AutoModel.from_pretrained(place, output_loading_info=True, **options)
        words = transformers.AutoTokenizer.from_pretrained(place, **options)
    config = _check_kind(name, net.config or config)
    new = sorted(loaded["missing_keys"])
    if lost := [key for key in new if not key.startswith(MAY_BE_NEW)]:
        raise DataError(f"{name}: its weights lack {len(lost)} of the encoder, {lost[0]} for instance. Save it whole.")
    weights = {key: x for key, x in net.state_dict().items() if key not in new}
    tokenizer = _tokenizer(name, words)
    _check_fit(name, config, tokenizer, max_length, words.model_max_length)
    _check_both_sides(name, net.eval(), config)
    return Pretrained(config, weights, tokenizer, tuple(new))


def make_config(saved: Mapping[str, Any]) -> "PretrainedConfig":
    """The configuration of a dictionary, such as `config.to_dict()` gives."""
    fields = dict(saved)
    config: PretrainedConfig = _transformers().AutoConfig.for_model(fields.pop("model_type"), **fields)
    return config


def known_config(name: str | None) -> Mapping[str, Any]:
    """The configuration of an encoder that is known here, without the hub."""
    if name is None or name not in CONFIGS:
        raise RecipeError(
            f"the sizes of the encoder {name} are not known without its files. Known: {', '.join(CONFIGS)}. For "
            "a folder: porism cost hf:FOLDER."
        )
    return CONFIGS[name]


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise missing_transformers() from None
    return transformers


def _is_cached(name: str) -> bool:
    """Whether the hub's files are on this machine."""
    from huggingface_hub import try_to_load_from_cache

    return isinstance(try_to_load_from_cache(name, "config.json"), str)


def _check_hub(name: str) -> None:
    """Says in one line that the hub cannot be reached, where transformers would try for half a minute."""
    hub = os.environ.get("HF_ENDPOINT", HUB)
    advice = advise(
        "Give a local folder with {}, or train a recipe that needs none, such as attention.", fields(encoder="FOLDER")
    )
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        raise DataError(f"encoder {name}: not on this machine, and HF_HUB_OFFLINE is set.", advice)
    try:
        urllib.request.urlopen(urllib.request.Request(hub, method="HEAD"), timeout=TIMEOUT_SECONDS).close()
    except urllib.error.HTTPError as answered:
        answered.close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise DataError(
            f"encoder {name}: not on this machine, and {hub} cannot be reached ({reason}).", advice
        ) from None


@contextmanager
def _answered(name: str) -> Iterator[None]:
    """One line for whatever is wrong with the files of an encoder: they may fail anywhere in transformers."""
    try:
        yield
    except Exception as error:
        raise DataError(
            f"encoder {name}: cannot be loaded ({one_line(error)}). Give a folder that save_pretrained wrote, of model "
            "and tokenizer, or a name on the hub."
        ) from None


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the notes and bars of transformers: what matters of them is in our own notes."""
    from transformers.utils import logging as notes

    before, bars = notes.get_verbosity(), notes.is_progress_bar_enabled()
    hub = logging.getLogger("huggingface_hub")
    hub_before = hub.level
    notes.set_verbosity_error()
    notes.disable_progress_bar()
    hub.setLevel(logging.ERROR)
    try:
        yield
    finally:
        notes.set_verbosity(before)
        hub.setLevel(hub_before)
        if bars:
            notes.enable_progress_bar()


def _check_kind(name: str, config: "PretrainedConfig") -> "PretrainedConfig":
    """Refuses what is no encoder of text alone."""
    if getattr(config, "is_encoder_decoder", False) or not hasattr(config, "hidden_size"):
        raise DataError(f"encoder {name}: a {config.model_type} model, expected an encoder of text, such as BERT.")
    return config


def _tokenizer(name: str, words: Any) -> PretrainedTokenizer:
    backend = getattr(words, "backend_tokenizer", None)
    if backend is None or words.pad_token_id is None:
        lacks = "a fast tokenizer (tokenizer.json)" if backend is None else "a token for padding"
        raise DataError(f"encoder {name}: it lacks {lacks}. Give a folder with one.")
    return PretrainedTokenizer(backend, words.pad_token_id, words.unk_token_id, words.all_special_ids)


def _check_fit(name: str, config: Any, tokenizer: PretrainedTokenizer, max_length: int, longest: int) -> None:
    positions = getattr(config, "max_position_embeddings", None) or longest
    # RoBERTa counts its positions from the id of padding on.
    offset = config.pad_token_id + 1 if "roberta" in config.model_type or config.model_type == "camembert" else 0
    most = min(positions - offset, longest)
    if max_length > most:
        raise RecipeError(
            f"encoder {name}: {most} positions, got max_length={max_length}.",
            advise("Use {}.", fields(max_length=most)),
        )
    if max_length <= tokenizer.special_tokens:
        least = tokenizer.special_tokens + 1
        raise RecipeError(f"encoder {name}: max_length={max_length} leaves no room for words. Use {least} or more.")
    if len(tokenizer) > config.vocab_size:
        raise DataError(
            f"encoder {name}: its tokenizer has {len(tokenizer)} tokens, its embedding {config.vocab_size}. "
            "Give a tokenizer and a model that belong together."
        )


@torch.no_grad()
def _check_both_sides(name: str, net: nn.Module, config: Any) -> None:
    """Refuses a net whose first token attends to no later token: its answer would not depend on the text."""
    tokens = torch.zeros(2, 8, dtype=torch.int64)
    tokens[1, -1] = config.vocab_size - 1
    states = net(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state[:, 0]
    if torch.equal(states[0], states[1]):
        raise DataError(
            f"encoder {name}: the first token of a {config.model_type} attends to no other, so it is no encoder of "
            "whole texts. Give one such as BERT."
        )

# Written by tools/write_fields.py from the recipes; tests/api/test_typed.py holds it equal.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, Unpack, overload

from torch import nn

from porism.api.compare import Comparison, Factory, Model
from porism.api.listeners import Callback
from porism.api.run import FilePath, Run
from porism.runs.recipe import Recipe
from porism.training.budget import Budget
from porism.training.own_model import DataInfo
from porism.training.task import Function

class RecipeFields(TypedDict, total=False):
    epochs: int
    max_seconds: float | None
    patience: int
    restore_best_weights: bool
    batch_size: int
    optimizer: Literal["adam", "adamw", "sgd"]
    learning_rate: float
    weight_decay: float
    max_grad_norm: float | None
    lr_scheduler: Literal["constant", "linear", "cosine"]
    warmup_steps: int
    precision: Literal["auto", "fp32", "bf16"]

class LanguageFields(RecipeFields, total=False):
    tokenizer: Literal["auto", "whitespace", "words", "characters", "bytes", "bpe"]
    lowercase: bool
    min_count: int | None
    max_vocab_size: int | None
    nonlinearity: Literal["sigmoid", "tanh", "relu"]
    embedding_dim: int
    hidden_size: int
    num_layers: int
    seq_len: int
    dropout: float
    variational_dropout: bool
    embedding_dropout: float
    num_heads: int
    dim_feedforward: int | None
    window_size: int
    order: int
    feature_map: Literal["auto", "rolled", "exact", "ordered", "diagonal"]
    weight_dropout: float
    weight_init: Literal["xavier_uniform", "orthogonal"]
    tie_weights: bool

class ImagesFields(RecipeFields, total=False):
    hidden_size: int
    num_layers: int
    directions: Literal[1, 2, 4]
    layer: Literal["grid", "sequence", "convolution"]
    cell: Literal["simple", "lstm"]
    nonlinearity: Literal["sigmoid", "tanh", "relu"]
    patch_size: int
    dropout: float
    label_smoothing: float
    translate: int
    degrees: float
    scale: float
    horizontal_flip: bool
    divisor: Literal[255, 256]
    levels: int
    test_subset: Literal["whole", "as-train"]
    image_size: int | None
    skip_broken: bool

class GraphsFields(RecipeFields, total=False):
    normalization: Literal["sym", "rw", "softmax", "none"]
    add_self_loops: bool
    hidden_size: int
    num_layers: int
    dropout: float
    input_dropout: float
    power_iterations: int
    teleport_probability: float
    num_augmentations: int
    consistency_weight: float
    sharpening_temperature: float
    features: Literal["auto", "given", "standardized", "one-hot"]
    normalize_features: bool
    first_layer_weight_decay: float
    check_val_every_n_epoch: int
    num_neighbors: int | None
    max_memory_mib: int
    split: Literal["public", "random"]
    split_seed: int

class SpeechFields(RecipeFields, total=False):
    encoder: Literal["attention", "lstm"]
    decoder: Literal["lstm", "attention"]
    features: Literal["fbank", "ljspeech"]
    max_target_length: int
    scoring: Literal["whole", "published"]
    transcripts: str | None
    strict: bool
    hidden_size: int
    num_heads: int
    num_layers: int
    dim_feedforward: int | None
    decoder_dim_feedforward: int | None
    subsampling: Literal[2, 4]
    dropout: float
    label_smoothing: float
    ignore_padding: bool
    ctc_weight: float
    word_dropout: float
    guided_attention_weight: float
    num_freq_mask: int
    freq_mask_width: int
    num_time_mask: int
    time_mask_width_ratio: float
    speed_perturb: float
    check_val_every_n_epoch: int
    num_buckets: int
    search: Literal["greedy", "ctc", "beam"]
    beam_size: int
    decode_ctc_weight: float
    length_bonus: float

class WordsFields(RecipeFields, total=False):
    estimator: Literal["full", "uniform", "importance", "self-normalised", "sampled-softmax", "nce", "negative"]
    vector_size: int
    window: int
    negative: int
    sample: float
    min_count: int
    tokenizer: Literal["auto", "whitespace", "words"]
    lowercase: bool
    validation_split: float
    deterministic: bool
    max_memory_mib: int
    evaluation_data: str | None

class SentimentFields(RecipeFields, total=False):
    encoder: str | None
    hidden_size: int
    num_layers: int
    num_heads: int
    dim_feedforward: int | None
    window_size: int
    order: int
    dropout: float
    word_dropout: float
    classifier_dropout: float
    max_length: int
    lowercase: bool
    min_count: int
    max_vocab_size: int | None
    num_frozen_layers: int
    layerwise_lr_decay: float
    class_weight: Literal["none", "balanced"]
    deduplicate: bool
    validation_split: float
    test_split: float
    text_column: str | None
    score_column: str | None
    num_buckets: int

class SupervisedFields(RecipeFields, total=False):
    hidden_size: int
    num_layers: int
    nonlinearity: Literal["relu", "tanh", "gelu"]
    dropout: float
    standardize: bool
    validation_split: float
    test_split: float
    split_seed: int

@overload
def train(
    task: Literal["language"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[LanguageFields],
) -> Run: ...
@overload
def train(
    task: Literal["images"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[ImagesFields],
) -> Run: ...
@overload
def train(
    task: Literal["graphs"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[GraphsFields],
) -> Run: ...
@overload
def train(
    task: Literal["speech"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SpeechFields],
) -> Run: ...
@overload
def train(
    task: Literal["words"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[WordsFields],
) -> Run: ...
@overload
def train(
    task: Literal["sentiment"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SentimentFields],
) -> Run: ...
@overload
def train(
    task: Literal["supervised"],
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SupervisedFields],
) -> Run: ...
@overload
def train(
    task: nn.Module,
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SupervisedFields],
) -> Run: ...
@overload
def train(
    task: str,
    recipe: str | Recipe | FilePath | None = None,
    *,
    data: Any = None,
    model: nn.Module | Callable[[DataInfo], nn.Module] | str | None = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    tune: float | None = None,
    fast_dev_run: bool = False,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[RecipeFields],
) -> Run: ...
@overload
def compare(
    task: Literal["language"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[LanguageFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["images"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[ImagesFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["graphs"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[GraphsFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["speech"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SpeechFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["words"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[WordsFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["sentiment"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SentimentFields],
) -> Comparison: ...
@overload
def compare(
    task: Literal["supervised"],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SupervisedFields],
) -> Comparison: ...
@overload
def compare(
    task: Mapping[str, nn.Module | Factory],
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[SupervisedFields],
) -> Comparison: ...
@overload
def compare(
    task: str,
    models: Sequence[str | Recipe | Run] | Mapping[str, Model] | str = (),
    *,
    seeds: int | Sequence[int] = 1,
    budget: Budget = "equal",
    data: Any = None,
    loss: str | Function | None = None,
    metrics: Mapping[str, Function] | None = None,
    out: FilePath | None = None,
    resume: bool = False,
    seed: int = 1,
    device: str = "auto",
    threads: int | None = None,
    baselines: bool = True,
    workers: int = 1,
    progress: bool | None = None,
    callbacks: Sequence[Callback] = (),
    **fields: Unpack[RecipeFields],
) -> Comparison: ...

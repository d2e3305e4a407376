"""Models of text. Wherever heads are varied D is the width of one, so that the width A D always splits into them."""

import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MambaForCausalLM,
    MixtralConfig,
    MixtralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from real_model_cases.case import Case

LAYERS = {"L": "layers"}
WIDTHS = {"D": "width of a head", "H": "feed-forward width"}
# One more layer takes time and is like the others: six are enough to see that they are all alike.
FEW_LAYERS = {"L": 6}
WORDS = {"input_ids": "B T : int"}


def gpt2(A: int, D: int, V: int, L: int) -> nn.Module:
    return GPT2LMHeadModel(GPT2Config(n_embd=A * D, n_head=A, vocab_size=V, n_layer=L))


def bert(A: int, D: int, H: int, V: int, L: int) -> nn.Module:
    config = BertConfig(
        hidden_size=A * D, num_attention_heads=A, intermediate_size=H, vocab_size=V, num_hidden_layers=L
    )
    return BertForMaskedLM(config)


def t5(A: int, D: int, V: int, L: int) -> nn.Module:
    config = T5Config(d_model=A * D, num_heads=A, d_kv=D, d_ff=4 * A * D, vocab_size=V, num_layers=L)
    return T5ForConditionalGeneration(config)


def llama(A: int, D: int, H: int, V: int, L: int) -> nn.Module:
    config = LlamaConfig(
        hidden_size=A * D, num_attention_heads=A, intermediate_size=H, vocab_size=V, num_hidden_layers=L
    )
    return LlamaForCausalLM(config)


def llama_7b() -> nn.Module:
    """The 7-billion-parameter model as its configuration class gives it, without weights."""
    with torch.device("meta"):
        return LlamaForCausalLM(LlamaConfig())


def mixtral(A: int, D: int, H: int, V: int, G: int, L: int) -> nn.Module:
    config = MixtralConfig(
        hidden_size=4 * A * D,
        num_attention_heads=4 * A,
        num_key_value_heads=A,
        intermediate_size=H,
        vocab_size=V,
        num_local_experts=G,
        num_hidden_layers=L,
    )
    # The plain implementation asks which experts have tokens, and copies a weight for every token in `batched_mm`.
    config._experts_implementation = "grouped_mm"
    return MixtralForCausalLM(config)


def mamba(D: int, P: int, R: int, V: int, L: int) -> nn.Module:
    config = MambaConfig(hidden_size=D, state_size=P, time_step_rank=R, vocab_size=V, num_hidden_layers=L)
    return MambaForCausalLM(config)


TEXT = [
    Case(
        "gpt2",
        gpt2,
        WORDS | {"use_cache": False},
        LAYERS | {"D": WIDTHS["D"]},
        published={"B": 2, "T": 1024, "A": 12, "D": 64, "V": 50257, "L": 12},
        stays_a_number="1,024 positions, hence T up to that; a feed-forward width of 4 A D. Dropout is on, as in "
        "training, and then attention is no fused kernel and keeps its scores.",
        largest=FEW_LAYERS,
    ),
    Case(
        "bert",
        bert,
        WORDS,
        LAYERS | WIDTHS,
        published={"B": 2, "T": 512, "A": 12, "D": 64, "H": 3072, "V": 30522, "L": 12},
        stays_a_number="512 positions, hence T up to that, and 2 segments. Dropout is on, as in training, and then "
        "attention is no fused kernel and keeps its scores.",
        largest=FEW_LAYERS,
    ),
    Case(
        "t5",
        t5,
        {"input_ids": "B S : int", "decoder_input_ids": "B T : int", "use_cache": False},
        {
            "D": WIDTHS["D"],
            "L": "layers of the encoder, and of the decoder",
            "S": "source length",
            "T": "target length",
        },
        published={"B": 2, "S": 512, "T": 512, "A": 8, "D": 64, "V": 32128, "L": 6},
        stays_a_number="32 buckets of distances, a feed-forward width of 4 A D. The scores have a learned bias, and "
        "then attention is no fused kernel and keeps them.",
        largest=FEW_LAYERS,
    ),
    Case(
        "llama",
        llama,
        WORDS | {"use_cache": False},
        LAYERS | WIDTHS,
        published={"B": 2, "T": 4096, "A": 32, "D": 128, "H": 11008, "V": 32000, "L": 32},
        stays_a_number="Nothing. As many heads of keys as of queries; rotated positions need an even D.",
        multiples={"D": 2},
        largest=FEW_LAYERS,
    ),
    Case(
        "llama-7b",
        llama_7b,
        WORDS | {"use_cache": False},
        {},
        published={"B": 2, "T": 4096},
        stays_a_number="All but B and T: the configuration class as it comes, its weights on `meta`.",
    ),
    Case(
        "mixtral",
        mixtral,
        WORDS | {"use_cache": False},
        LAYERS | WIDTHS | {"A": "heads of keys, four of queries for each", "G": "experts"},
        published={"B": 2, "T": 4096, "A": 8, "D": 128, "H": 14336, "V": 32000, "G": 8, "L": 32},
        stays_a_number="2 experts a token, 4 heads of queries for one of keys, numbers of 2 bytes. Counted is the "
        "implementation `grouped_mm`, whose products do not depend on which experts are chosen. For heads wider than "
        "256 transformers copies keys and values to all queries, hence D up to that.",
        multiples={"D": 8, "H": 8},
        largest=FEW_LAYERS | {"D": 256},
        dtype=torch.bfloat16,
    ),
    Case(
        "mamba",
        mamba,
        WORDS | {"use_cache": False},
        LAYERS | {"P": "size of the state", "R": "rank of the step size"},
        published={"B": 2, "T": 64, "D": 768, "P": 16, "R": 48, "V": 50280, "L": 24},
        stays_a_number="An inner width of 2 D, a convolution over 4 steps. Counted is the implementation in plain "
        "PyTorch, a loop over T: its products only, the scan itself is elementwise.",
        largest=FEW_LAYERS | {"T": 24},
    ),
]

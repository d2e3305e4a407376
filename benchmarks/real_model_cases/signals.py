"""Models of images and of speech."""

from torch import nn
from transformers import (
    ViTConfig,
    ViTForImageClassification,
    Wav2Vec2Config,
    Wav2Vec2ForCTC,
    WhisperConfig,
    WhisperForConditionalGeneration,
)

from real_model_cases.case import Case
from real_model_cases.text import FEW_LAYERS, LAYERS, WIDTHS


def vit(P: int, A: int, D: int, H: int, L: int) -> nn.Module:
    config = ViTConfig(
        hidden_size=A * D,
        num_attention_heads=A,
        intermediate_size=H,
        num_hidden_layers=L,
        image_size=16 * P,
    )
    config.num_labels = 1000
    return ViTForImageClassification(config)


def wav2vec2(C: int, A: int, D: int, H: int, L: int) -> nn.Module:
    config = Wav2Vec2Config(
        hidden_size=A * D, num_attention_heads=A, intermediate_size=H, num_hidden_layers=L, conv_dim=(C,) * 7
    )
    model: nn.Module = Wav2Vec2ForCTC(config)
    return model.eval()


def whisper(S: int, A: int, D: int, V: int, L: int) -> nn.Module:
    config = WhisperConfig(
        d_model=A * D,
        encoder_attention_heads=A,
        decoder_attention_heads=A,
        encoder_ffn_dim=4 * A * D,
        decoder_ffn_dim=4 * A * D,
        encoder_layers=L,
        decoder_layers=L,
        vocab_size=V,
        max_source_positions=S,
        # Words that every vocabulary has.
        pad_token_id=1,
        bos_token_id=1,
        eos_token_id=1,
        decoder_start_token_id=1,
    )
    model: nn.Module = WhisperForConditionalGeneration(config)
    return model.eval()


SIGNALS = [
    Case(
        "vit",
        vit,
        {"pixel_values": "B 3 16*P 16*P : data"},
        LAYERS | WIDTHS | {"P": "patches a side of the image"},
        published={"B": 2, "P": 14, "A": 12, "D": 64, "H": 3072, "L": 12},
        stays_a_number="Patches of 16 by 16 points in 3 colours, 1,000 classes.",
        largest=FEW_LAYERS,
    ),
    Case(
        "wav2vec2",
        wav2vec2,
        {"input_values": "B 320*T+80 : data"},
        LAYERS | WIDTHS | {"T": "frames, of 320 T + 80 points", "C": "channels of the seven convolutions"},
        published={"B": 2, "T": 49, "C": 512, "A": 12, "D": 64, "H": 3072, "L": 12},
        stays_a_number="Kernels and strides of the convolutions. For lengths between 320 T + 80 points seven floors "
        "stand inside each other, and only numbers can be had. 16 groups and 128 frames of the convolution for "
        "positions, 32 letters. Layers are dropped at random in training: counted is `.eval()`, without dropout.",
        multiples={"D": 16},
        largest=FEW_LAYERS,
    ),
    Case(
        "whisper",
        whisper,
        {"input_features": "B 80 2*S : data", "decoder_input_ids": "B T : int", "use_cache": False},
        {
            "D": WIDTHS["D"],
            "L": "layers of the encoder, and of the decoder",
            "S": "positions of the recording, two frames each",
            "T": "length of the text",
        },
        published={"B": 2, "S": 1500, "T": 448, "A": 6, "D": 64, "V": 51865, "L": 4},
        stays_a_number="80 features a frame, a feed-forward width of 4 A D, 448 positions of text, hence T up to "
        "that. Its table of sines needs an even D. Layers may be dropped in training: counted is `.eval()`.",
        multiples={"D": 2},
        largest=FEW_LAYERS,
    ),
]

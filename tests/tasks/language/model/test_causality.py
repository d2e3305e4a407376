"""A language model of one's own may not see the tokens that it predicts."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import porism
from porism.errors import RecipeError
from porism.tasks.language.model.causality import check_causal
from porism.tasks.language.model.own import OwnLanguageModel
from porism.tasks.language.recipes import RECIPES

V, T = 11, 9


class Net(nn.Module):
    """Tokens to logits, with a layer between the two."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.embedding, self.layer, self.out = nn.Embedding(V, 8), layer, nn.Linear(8, V)

    def forward(self, tokens: Tensor) -> Any:
        found = self.layer(self.embedding(tokens))
        return self.out(found[0] if isinstance(found, tuple) else found)


class Encoder(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked, self.layer = masked, nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5)

    def forward(self, x: Tensor) -> Any:
        if not self.masked:
            return self.layer(x)
        return self.layer(x, nn.Transformer.generate_square_subsequent_mask(len(x)), is_causal=True)


class Convolution(nn.Module):
    def __init__(self, left: int, right: int, wrap: Callable[[nn.Module], nn.Module] = lambda layer: layer) -> None:
        super().__init__()
        self.padding, self.layer = (left, right), wrap(nn.Conv1d(8, 8, left + right + 1))

    def forward(self, x: Tensor) -> Any:
        padded = nn.functional.pad(x.permute(1, 2, 0), self.padding)  # B D T
        return self.layer(padded).permute(2, 0, 1)


class Fourier(nn.Module):
    """A causal convolution as long as the window, whose every position is rounded anew."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(T, 1, 8))

    def forward(self, x: Tensor) -> Any:
        size = 2 * len(x)
        product = torch.fft.rfft(x, size, 0) * torch.fft.rfft(self.filter[: len(x)], size, 0)
        return torch.fft.irfft(product, size, 0)[: len(x)]


class Remembering(nn.Module):
    """It goes on from the state in which the window before has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.state = nn.GRU(8, 8), None

    def forward(self, x: Tensor) -> Any:
        y, state = self.layer(x, self.state)
        self.state = state.detach()
        return y


class Normalised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x.permute(1, 2, 0)).permute(2, 0, 1)


class Noisy(nn.Module):
    """Dropout that is never off."""

    def forward(self, x: Tensor) -> Any:
        return nn.functional.dropout(x, 0.5)


class Gated(nn.Module):
    """Attention without a mask, behind a gate that is closed before the first step."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.gate = Encoder(masked=False), nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Any:
        return x + self.gate * self.layer(x)


class Blocks(nn.Module):
    """The mean of each three positions."""

    def forward(self, x: Tensor) -> Any:
        return x.unflatten(0, (-1, 3)).mean(1).repeat_interleave(3, 0)


CAUSAL: dict[str, Callable[[], nn.Module]] = {
    "tokens alone": nn.Identity,
    "a mask": lambda: Encoder(masked=True),
    "recurrent": lambda: nn.LSTM(8, 8, 2, dropout=0.5),
    "left padding": lambda: Convolution(2, 0),
    "weight norm": lambda: Convolution(2, 0, torch.nn.utils.weight_norm),
    "Fourier": Fourier,
    "state": Remembering,
    "batch norm": Normalised,
    "noise": Noisy,
}
LOOKING: dict[str, Callable[[], nn.Module]] = {
    "no mask": lambda: Encoder(masked=False),
    "both directions": lambda: nn.LSTM(8, 4, bidirectional=True),
    "padding on both sides": lambda: Convolution(1, 1),
    "padding and weight norm": lambda: Convolution(1, 1, torch.nn.utils.weight_norm),
    "a closed gate": Gated,
    "blocks": Blocks,
}


def model_of(layer: nn.Module) -> OwnLanguageModel:
    return OwnLanguageModel(RECIPES["elman"], V, Net(layer)).train()


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("kind", CAUSAL)
def test_a_model_that_looks_back_alone_stays_as_it_is(kind: str) -> None:
    torch.manual_seed(5)
    model, tokens = model_of(CAUSAL[kind]()), torch.randint(V, (T, 3))
    before = {name: x.clone() for name, x in model.state_dict().items()}
    random_before = torch.get_rng_state(), random.getstate(), str(np.random.get_state())
    check_causal(model, tokens)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), random_before[0])
    assert (random.getstate(), str(np.random.get_state())) == random_before[1:]
    assert all(module.training for module in model.modules())
    assert getattr(model.module.layer, "state", None) is None


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("kind", LOOKING)
def test_a_model_that_looks_ahead_is_refused(kind: str) -> None:
    torch.manual_seed(5)
    with pytest.raises(RecipeError, match="sees what it predicts: its logits at position . change with the tokens"):
        check_causal(model_of(LOOKING[kind]()), torch.randint(V, (T, 3)))


def test_a_look_ahead_is_seen_in_a_long_window() -> None:
    class Mean(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return x + x.mean(0, keepdim=True)

    torch.manual_seed(5)
    with pytest.raises(RecipeError, match="at position 0"):
        check_causal(model_of(Mean()), torch.randint(V, (20_000, 1)))
    check_causal(model_of(Mean()), torch.randint(V, (1, 3)))  # of one position there is nothing ahead


def test_it_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("a bird in the hand is worth two in the bush\n" * 60)

    def looking(info: Any) -> nn.Module:
        return nn.Sequential(nn.Embedding(info.vocab_size, 8), Encoder(masked=False), nn.Linear(8, info.vocab_size))

    with pytest.raises(RecipeError, match="Use a causal mask in attention"):
        porism.train("language", model=looking, data=text, out=tmp_path / "run", batch_size=4, seq_len=5, epochs=1)
    assert not (tmp_path / "run").exists()

"""porism.cost by name: layers, recipes, files, packages, folders of transformers."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import porism
from porism.api.cost import resolve
from porism.costing.cost import Cost
from porism.errors import PorismError, RecipeError

NET = "from torch import nn\ndef build(D, H):\n    return nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, D))\n"


def test_a_module_a_function_and_a_factory() -> None:
    assert str(porism.cost(nn.Linear(64, 10), "B T D").flops) == "1280*B*T"
    assert str(porism.cost(torch.matmul, "B D", "D H").flops) == "2*B*D*H"
    assert str(porism.cost(lambda D, H: nn.LSTM(D, H), "T B D").flops) == "8*B*H*T*(D + H)"


def test_a_layer_by_name() -> None:
    elman = porism.cost("elman")
    assert isinstance(elman, Cost)
    assert elman.name == "elman"
    assert str(elman.parameters) == "H*(D + H + 1)"
    assert str(porism.cost("elman", macs=True).flops) == "B*H*T*(D + H)"


def test_a_recipe_brings_its_sizes() -> None:
    lstm = porism.cost("language/lstm")
    own = dict(lstm.sizes)
    assert {"D", "H"} <= set(own) <= set(lstm.letters)
    rest = {letter: 3 for letter in lstm.letters if letter not in own}
    assert lstm.at(recount=False, **rest).flops == lstm.at(recount=False, **own, **rest).flops
    assert lstm.at(recount=False, **rest).flops != lstm.at(recount=False, **{**own, "H": 1}, **rest).flops


def test_a_file_and_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_net.py").write_text(NET)
    assert str(porism.cost("my_net.py:build", "B D").flops) == "4*B*D*H"
    assert str(porism.cost(f"{tmp_path}/my_net.py:build", {"input": "B D"}).flops) == "4*B*D*H"
    assert str(porism.cost("my_net:build", "B D").flops) == "4*B*D*H"
    with pytest.raises(RecipeError, match="what goes into my_net.py:build"):
        porism.cost("my_net.py:build")
    with pytest.raises(PorismError, match="nowhere.py:build cannot be found"):
        porism.cost("nowhere.py:build", "B D")
    with pytest.raises(PorismError, match="my_net.py:built cannot be found"):
        porism.cost("my_net.py:built", "B D")
    with pytest.raises(PorismError, match="my_net.py:built cannot be found"):  # and not: what goes into it?
        porism.cost("my_net.py:built")


def test_a_name_that_is_none() -> None:
    with pytest.raises(RecipeError, match="no layer and no recipe 'elmann'. Did you mean elman?"):
        porism.cost("elmann")
    with pytest.raises(RecipeError, match="elman has its own"):
        porism.cost("elman", "B T")


def test_a_folder_of_transformers(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the folder is one of the transformers package")
    sizes = {"vocab_size": 50, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 256}
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], **sizes}
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = resolve(f"hf:{tmp_path}")
    assert found.inputs == ({"input_ids": "B T : int < 50"},)
    assert isinstance(found.target, nn.Module)
    assert all(weight.is_meta for weight in found.target.parameters())
    cost = porism.cost(f"hf:{tmp_path}", kwargs={"use_cache": False})
    assert cost.letters == ("B", "T")
    # Words and positions; 12 squares and 13 widths in the layer; a last norm.
    assert cost.parameters == (50 + 256) * 8 + 12 * 64 + 13 * 8 + 2 * 8
    with pytest.raises(RecipeError, match="has no config.json"):
        porism.cost(f"hf:{tmp_path}/nothing")


class Words(nn.Module):
    """A model whose inputs have names."""

    def __init__(self, V: int = 99) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(V, 8), nn.Linear(8, V)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, use_cache: bool = True) -> Tensor:
        x: Tensor = self.words(input_ids)
        if attention_mask is not None:
            x = x * attention_mask.unsqueeze(-1)
        y: Tensor = self.head(x)
        return y if use_cache else y + 1


def test_the_documented_calls_with_their_types() -> None:
    """As people write them: a checker of types reads this file in strict mode."""
    c = porism.cost(lambda V: Words(V), "B T : int < V")
    bytes_kept: porism.Quantity = c.at(B=8, T=2048, V=50_000).activation_bytes
    assert int(bytes_kept) == 8 * 2048 * (8 + 32)
    named = {"input_ids": "B T : int < 99", "attention_mask": "B T : int"}
    masked: porism.Cost = porism.cost(Words(), named, kwargs={"use_cache": False})
    assert str(masked.flops) == "1584*B*T"
    net = nn.Sequential(nn.Embedding(2, 8), nn.Linear(8, 3))
    assert str(porism.cost(net, lambda B, T: torch.randint(2, (B, T))).flops) == "48*B*T"
    length = c.solve("T", memory="24GB", B=1, V=50_000)
    assert c.at(B=1, T=length, V=50_000).parameters == c.at(B=1, T=1, V=50_000).parameters
    assert c.memory(B=1, T=length, V=50_000).total <= 24e9 < c.memory(B=1, T=int(length) + 1, V=50_000).total
    assert porism.cost(nn.Conv2d(3, 8, 7), "B 3 224 224").at(B=1).flops <= 5e9
    crossing = c.crossover(masked, "T", V=200).size
    assert crossing is None

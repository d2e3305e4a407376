"""porism.cost by name: layers, recipes, files, packages, folders of transformers."""

import json
from pathlib import Path

import pytest
import torch
from torch import nn

import porism
from porism.api import resolve
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

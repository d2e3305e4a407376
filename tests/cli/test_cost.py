import json
from pathlib import Path

import pytest
from tests.cli.conftest import Say


def test_a_layer_by_name_with_sizes_put_in(say: Say) -> None:
    said = say("cost", "elman", "--at", "B=32,T=100,D=50,H=100", "--json")
    assert said.code == 0
    result = json.loads(said.out.splitlines()[-1])
    assert result["parameters"] == "H*(D + H + 1)"
    assert result["flops"] == "2*B*H*T*(D + H)"
    assert result["at"]["flops"] == 2 * 32 * 100 * 100 * 150
    assert result["uncounted"] == []
    assert result["verdict"].startswith("exact on")
    assert result.keys() >= {"backward_flops", "activation_bytes"}


def test_a_module_somebody_brings(say: Say, tmp_path: Path) -> None:
    (tmp_path / "brought_by_a_user.py").write_text(
        "from torch import nn\ndef build(D, H):\n"
        "    return nn.Sequential(nn.Linear(D, H), nn.ReLU(), nn.Linear(H, D))\n"
    )
    said = say("cost", "brought_by_a_user:build", "--input", "B D", "--json")
    assert json.loads(said.out.splitlines()[-1])["flops"] == "4*B*D*H"
    said = say("cost", "torch.nn:Linear", "--with", "64, 10", "--input", "B T D", "--json")
    assert json.loads(said.out.splitlines()[-1])["flops"] == "1280*B*T"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["elmann"], "cost: there is no layer 'elmann'. Did you mean elman?"),
        (["torch.nn:Linear"], "cost: what goes into torch.nn:Linear? Name its sizes"),
        (["torch.nn:Liner", "--input", "B D"], "cost: torch.nn:Liner cannot be found"),
        (["nowhere.at_all:build", "--input", "B"], "cost: nowhere.at_all:build cannot be found"),
        (["torch.nn:Linear", "--with", "x", "--input", "B D"], "cost: Linear(x) cannot be made"),
        (["elman", "--at", "B"], "cost: --at takes letters with sizes, got 'B'"),
        (["elman", "--at", "Q=3"], "has no letter Q to set"),
        (["elman", "--at", "B=3"], "needs numbers for"),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(say: Say, words: list[str], message: str) -> None:
    said = say("cost", words)
    assert said.code == 2
    assert message in said.err
    assert said.err.count("\n") == 1

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Say

from porism.layers.attention.pattern import Pattern
from porism.tasks.language.recipes import RECIPES


def test_a_layer_by_name_with_sizes_put_in(say: Say) -> None:
    completed = say("cost", "elman", "--at", "B=32,T=100,D=50,H=100", "--json")
    assert completed.code == 0
    result = json.loads(completed.out.splitlines()[-1])
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
    completed = say("cost", "brought_by_a_user:build", "--input", "B D", "--json")
    assert json.loads(completed.out.splitlines()[-1])["flops"] == "4*B*D*H"
    completed = say("cost", "torch.nn:Linear", "--with", "64, 10", "--input", "B T D", "--json")
    assert json.loads(completed.out.splitlines()[-1])["flops"] == "1280*B*T"


def test_inputs_by_name_and_a_file(say: Say, tmp_path: Path) -> None:
    (tmp_path / "masking.py").write_text("def masked(x, mask):\n    return (x @ x.mT) * mask\n")
    inputs = ["--input", "mask=B B : bool", "--input", "x=B D"]
    completed = say("cost", f"{tmp_path}/masking.py:masked", *inputs, "--at", "B=500,D=3", "--json")
    assert completed.code == 0
    result = json.loads(completed.out.splitlines()[-1])
    assert result["flops"] == "2*B**2*D"
    assert result["at"]["flops"] == 2 * 500 * 500 * 3
    assert result["labels"] == dict.fromkeys(
        ("parameters", "flops", "backward_flops", "activation_bytes"), "by formula"
    )


def test_a_number_that_is_unknown_is_said_to_be(say: Say) -> None:
    completed = say("cost", "torch.nn:Conv1d", "--with", "1, 1, 9", "--input", "B 1 T", "--at", "B=1,T=5", "--json")
    assert completed.code == 0
    result = json.loads(completed.out.splitlines()[-1])
    assert result["at"]["flops"] is None
    assert result["labels"]["flops"] == "unknown"
    assert "forward FLOPs: unknown (torch.nn:Conv1d refuses T=5)" in completed.err


def test_a_recipe_brings_its_own_sizes(say: Say) -> None:
    completed = say("cost", "language/lstm", "--at", "V=1000", "--memory", "1MB", "--json")
    result = json.loads(completed.out.splitlines()[-1])
    assert result["parameters"] == "4*D*H + D*V + 4*H**2 + H*V + 8*H + V"
    recipe = RECIPES["lstm"]
    D, H = recipe.embedding_dim, recipe.hidden_size
    assert result["at"]["parameters"] == 4 * H * (D + H + 2) + 1000 * (D + H + 1)
    assert result["memory"]["optimizer"] > 2 * result["memory"]["parameters"]
    assert result["fits"] == {"fits": False, "available": 10**6, "bytes": result["fits"]["bytes"]}
    assert "does not fit" in completed.err


def test_one_against_another_in_words_and_as_a_picture(say: Say, tmp_path: Path) -> None:
    (tmp_path / "two_ways.py").write_text(
        "from torch import nn\n"
        "def square(D): return nn.Linear(D, D, bias=False)\n"
        "def line(D): return nn.Linear(D, 64, bias=False)\n"
    )
    picture = tmp_path / "crossing.svg"
    words = ["two_ways:square", "--input", "B D", "--against", "two_ways:line", "--along", "D", "--plot", str(picture)]
    completed = say("cost", words, "--json")
    assert completed.code == 0
    result = json.loads(completed.out.splitlines()[-1])["against"]
    assert [one["crossing"] for one in result[:2]] == [65, 65]
    assert "costs less than two_ways:line up to D=63, as much as two_ways:line at D=64" in completed.err
    assert "●" in completed.err
    assert picture.read_text().count("<svg") == 1


def test_conventions_switch(say: Say) -> None:
    completed = say("cost", "torch.nn:Linear", "--with", "64, 10", "--input", "B D", "--macs", "--json")
    result = json.loads(completed.out.splitlines()[-1])
    assert result["flops"] == "640*B"
    assert result["conventions"].startswith("1 for a multiply-add")


def test_a_pattern_is_drawn_at_the_sizes_put_in(say: Say) -> None:
    completed = say("cost", "window", "--draw", "--at", "T=8,W=3")
    assert completed.code == 0
    assert completed.err == ""
    pictures = completed.out.strip().split("\n\n")
    assert f"sliding, window 3: 21 pairs\n{Pattern('sliding', window_size=3).draw(8)}" in pictures


def test_windows_of_several_widths_go_into_one_picture(say: Say, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = json.loads(say("cost", "window", "--plot", str(tmp_path / "w.svg"), "--at", "W=32", "--json").out)
    assert list(found["formulas"]) == ["W = 32", "W = 128", "W = 512", "W = 2,048", "full attention"]
    assert found["formulas"]["full attention"] == "256*T**2"
    assert (tmp_path / "w.svg").read_text().count("<svg") == 1
    refused = say("cost", "elman", "--plot", str(tmp_path / "e.svg"))
    assert refused.code == 2
    assert "--plot draws a comparison, so it needs --against OTHER" in refused.err


def test_attention_is_counted_as_textbooks_count_it_too(say: Say) -> None:
    found = json.loads(say("cost", "attention", "--json").out)
    assert found["parameters"] == "4*A*D*(A*D + 1)"
    assert found["variants"]["attention-plain"]["parameters"] == "3*A**2*D**2"
    assert json.loads(say("cost", "attention-plain", "--json").out)["flops"] == "2*A*B*D*T*(3*A*D + 2*T)"


def test_drawing_counts_nothing(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def count(*_: object, **__: object) -> None:
        raise AssertionError("a picture needs no count")

    monkeypatch.setattr("porism.api.cost.derive", count)
    assert say("cost", "window", "--draw").code == 0
    with pytest.raises(AssertionError, match="a picture needs no count"):
        say("cost", "window")


@pytest.mark.parametrize(
    ("layer", "marks", "titles"),
    [
        ("attention", "■·", ["full: 49 pairs", "causal: 28 pairs"]),
        ("taylor", "▒·", ["full: 49 pairs by the series", "causal: 28 pairs by the series"]),
        ("hybrid", "■▒·", ["full, window 3: 29 pairs, and 20 by the series", "causal, window 3: 18 pairs, and 10 by"]),
    ],
)
def test_every_layer_that_attends_can_be_drawn(say: Say, layer: str, marks: str, titles: list[str]) -> None:
    completed = say("cost", layer, "--draw", "--at", "T=7", "--json")
    assert completed.code == 0
    drawing = json.loads(completed.out)["drawing"]
    assert drawing == completed.err.strip()
    assert [part.startswith(title) for part, title in zip(drawing.split("\n\n"), titles, strict=False)] == [True, True]
    assert set(drawing) >= set(marks)
    assert not set(drawing) & (set("■▒·") - set(marks))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["elmann"], "cost: there is no layer and no recipe 'elmann'. Did you mean elman?"),
        (["language/elmann"], "Did you mean language/elman?"),
        (["elman", "--input", "B"], "cost: --input and --with are for package.module:factory, and elman has its own"),
        (
            ["torch.nn:Tanh", "--input", "B T", "--at", "B=1,T=1", "--memory", "much"],
            "--memory takes bytes, got 'much'",
        ),
        (["torch.nn:Tanh", "--input", "B T", "--multiples", "B"], "--multiples takes letters with sizes, got 'B'"),
        (["torch.nn:Tanh", "--input", "B T", "--optimizer", "lion", "--at", "B=1,T=1"], "'lion' is no optimizer"),
        (["torch.nn:Linear", "--input", "B D"], "cost: Linear cannot be made without arguments"),
        (["torch.nn:Linear"], "cost: what goes into torch.nn:Linear? Name its sizes"),
        (["torch.nn:Liner", "--input", "B D"], "cost: torch.nn:Liner cannot be found"),
        (["nowhere.at_all:build", "--input", "B"], "cost: nowhere.at_all:build cannot be found"),
        (["torch.nn:Linear", "--with", "x", "--input", "B D"], "cost: Linear(x) cannot be made"),
        (["torch.nn:Tanh", "--input", "B T", "--at", "B"], "cost: --at takes letters with sizes, got 'B'"),
        (["torch.nn:Tanh", "--input", "B T", "--at", "Q=3"], "has no letter Q to set"),
        (["torch.nn:Tanh", "--input", "B T", "--at", "B=3"], "needs numbers for"),
        (
            ["elman", "--memory", "24GB"],
            "cost: --memory needs sizes, and T, B, D, H came without. Add --at T=32,B=32,D=32,H=32.",
        ),
        (["elman", "--measure", "--at", "B=3,T=4"], "cost: --measure needs sizes, and D, H came without."),
        (
            ["elman", "--memory", "1GB", "--against", "readout"],
            "cost: --memory is about one target at its sizes, and --against",
        ),
        (
            ["elman", "--against", "readout", "--along", "Q", "--at", "B=2,D=3,H=4,V=5"],
            "cost: neither elman nor readout depends on Q. Name a letter to go along from ",
        ),
        (["elman", "--against", "readout", "--along", ""], "cost: neither elman nor readout depends on ''. Name a"),
        (["elman", "--along", "Q"], "cost: --along Q goes along a comparison, and there is none. Add --against OTHER"),
        (["elman", "--device", "tpu"], "cost: --device tpu says where to measure, and nothing is measured. Add --meas"),
        (["elman", "--at", "B=1,B=2"], "cost: --at names B twice, 1 and 2. Give one of them."),
        (["elman", "--multiples", "D=8,H=8, D =8"], "cost: --multiples names D twice, 8 and 8. Give one of them."),
        (["elman", "--at", "B=²"], "cost: --at takes letters with sizes, got 'B=²'."),
        (["elman", "--at", f"B={'9' * 5000}"], "cost: --at takes letters with sizes, got 'B=999999"),
        (["elman", "--at", "=3"], "cost: --at takes letters with sizes, got '=3'."),
        (["elman", "--memory", f"{'9' * 400}GB", "--at", "B=1"], "cost: --memory takes bytes, got '999999"),
        (["elman", "--memory", "0GB", "--at", "B=1"], "cost: --memory takes bytes, got '0GB'."),
        (["torch.nn:Nope"], "cost: torch.nn:Nope cannot be found: module 'torch.nn' has no attribute 'Nope'."),
        (["window", "--draw", "--measure"], "cost: --measure is about one target at its sizes, and --draw came."),
        (["window", "--draw", "--against", "attention"], "cost: --draw is a picture of one pattern, and --against"),
        (["elman", "--draw"], "cost: elman cannot be drawn. Choose from attention, grid, hybrid, taylor, window."),
        (["language/lstm", "--draw"], "cost: language/lstm cannot be drawn. Choose from attention"),
        (["window", "--draw", "--at", "T=65"], "cost: T=65 does not fit a picture. Give T from 1 to 64"),
        (["window", "--draw", "--at", "B=2"], "cost: a picture has no letter B to set. It has T, W."),
        (["window", "--draw", "--at", "W=0"], "window_size is 0. Give a whole number from 1 on."),
    ],
)
def test_a_mistake_is_one_line_and_exit_2(say: Say, words: list[str], message: str) -> None:
    completed = say("cost", words)
    assert completed.code == 2
    assert message in completed.err
    assert completed.err.count("\n") == 1


def test_a_letter_that_a_recipe_fixes_is_set_by_at_and_compared_along_by_nobody(say: Say) -> None:
    completed = say(["cost", "language/hybrid", "--at", "T=3,H=8,V=9,B=2", "--json"])
    assert completed.code == 0
    assert "at T=3, along which the code has steps" in completed.err
    result = json.loads(completed.out.splitlines()[-1])
    assert result["fixed"] == {"T": 3}
    refused = say(["cost", "language/hybrid", "--at", "T=3", "--against", "language/elman", "--along", "T"])
    assert refused.code == 2
    assert "T is 3 in the formulas of language/hybrid, so that nothing is compared along it" in refused.err


def test_a_module_without_letters_has_its_memory(say: Say) -> None:
    completed = say("cost", "torch.nn:Linear", "--with", "64, 10", "--input", "8 64", "--memory", "1GB", "--json")
    result = json.loads(completed.out)
    assert result["fits"]["fits"] is True
    # 650 parameters of 4 bytes; Adam has two numbers for each, and a counter for each tensor.
    assert result["memory"]["parameters"] == result["memory"]["gradients"] == 2600
    assert result["memory"]["optimizer"] == 2 * 2600 + 2 * 4
    assert result["memory"]["total"] == sum(part for name, part in result["memory"].items() if name != "total")

"""Results are kept part by part, and ways are timed in turns."""

import itertools
import json
import platform
from pathlib import Path
from typing import Any

import pytest

import kept
import tables
from kept import RULES, Kept
from turns import in_turns, spread, times_faster

MEASURES = ("layers/recurrent/grid",)
MACHINE: dict[str, Any] = {
    "hardware": {"cpu": "c", "cores": 2, "threads": 2, "gpu": None},
    "versions": {"torch": "2", "peer": None},
    "load": 0.1,
}


def test_a_part_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    out = tmp_path / "new" / "result.json"
    assert Kept(out, MACHINE, {"turns": 3}, False, MEASURES).part("one", lambda: 1) == 1
    again = Kept(out, MACHINE, {"turns": 3}, True, MEASURES)
    assert again.part("one", lambda: 2) == 1
    again.part("two", lambda: 2)
    assert json.loads(out.read_text())["parts"] == {"one": 1, "two": 2}
    assert Kept(out, MACHINE, {"turns": 3}, False, MEASURES).result["parts"] == {}


@pytest.mark.parametrize("change", [{"settings": {"turns": 4}}, {"made_on": {**MACHINE, "versions": {"torch": "3"}}}])
def test_parts_of_other_settings_or_versions_are_not_mixed(tmp_path: Path, change: dict[str, Any]) -> None:
    out = tmp_path / "result.json"
    Kept(out, MACHINE, {"turns": 3}, False, MEASURES).part("one", lambda: 1)
    with pytest.raises(SystemExit, match="Leave --resume out"):
        Kept(out, **{"made_on": MACHINE, "settings": {"turns": 3}, **change}, resume=True, measures=MEASURES)


def test_parts_of_other_code_are_not_mixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "result.json"
    Kept(out, MACHINE, {"turns": 3}, False, MEASURES).part("one", lambda: 1)
    monkeypatch.setattr(kept, "checksums", lambda measures, device: {"layers/recurrent/grid/layer.py": "another"})
    with pytest.raises(SystemExit, match="was measured with other code"):
        Kept(out, MACHINE, {"turns": 3}, True, MEASURES)


def test_parts_of_other_settings_of_a_recipe_are_not_mixed(tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    before, today = {"words/skipgram": {"negative": 5}}, {"words/skipgram": {"negative": 9}}
    Kept(out, MACHINE, {}, False, MEASURES, before).part("one", lambda: 1)
    assert Kept(out, MACHINE, {}, True, MEASURES, before).part("one", lambda: 2) == 1
    for other in (today, None):
        with pytest.raises(SystemExit, match="was measured with other settings of recipes"):
            Kept(out, MACHINE, {}, True, MEASURES, other)


@pytest.mark.parametrize(
    ("processor", "device", "file"),
    [
        ("x86_64", "cpu", "grid_x86"),
        ("AMD64", "cpu", "grid_x86"),
        ("aarch64", "cpu", "grid_arm"),
        ("arm64", "cpu", "grid_arm"),
        ("riscv64", "cpu", "grid_riscv64"),
        ("x86_64", "cuda", "grid_cuda"),
    ],
)
def test_machines_of_another_kind_keep_results_apart(
    monkeypatch: pytest.MonkeyPatch, processor: str, device: str, file: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: processor)
    assert kept.result_of("grid", device) == tables.HERE / "results" / f"{file}.json"


def test_every_turn_has_every_way_in_an_order_of_its_own() -> None:
    calls: list[str] = []
    steps = {name: lambda name=name: calls.append(name) for name in "abcd"}
    times = in_turns(steps, turns=6, warm_up=1)
    assert {name: len(found) for name, found in times.items()} == dict.fromkeys("abcd", 6)
    turns = [tuple(calls[start : start + 4]) for start in range(0, len(calls), 4)]
    assert len(turns) == 7
    assert all(sorted(turn) == list("abcd") for turn in turns)
    assert len(set(turns)) > 1


def test_a_spread_is_median_and_quartiles() -> None:
    assert spread([5.0, 1.0, 3.0, 2.0, 4.0]) == {"median": 3.0, "low": 2.0, "high": 4.0, "turns": 5}
    assert spread([2.0]) == {"median": 2.0, "low": 2.0, "high": 2.0, "turns": 1}
    assert times_faster([1.0, 2.0], [4.0, 4.0])["median"] == pytest.approx(2.67)


TIME = {"median": 1.0, "low": 0.9, "high": 1.1, "turns": 5}
BOTH = {"forward": TIME, "both": TIME}
FASTER = {"best_peer": "flex", "times_faster": TIME, "times_faster_than_full": TIME}
MODES = {f"{mode}, {kind}": TIME for mode in ("eager", "captured") for kind in ("forward", "both")}
ROW = {"seed": 1, "parameters": 9, "epochs": 2, "seconds": 1.5, "flops": 7, "tokens_per_second": 8.0, "published": {}}
SPLITS = {"train": 0.9, "valid": 0.8, "test": 0.7}
SERIES = {
    "T=8": {"T": 8, "ms": {"full": BOTH, "series D=64": BOTH, "series D=16": BOTH},
            "times_faster": {"series D=64": BOTH, "series D=16": BOTH}},
    "decay T=8": {"T": 8, "ms": {"D=64": BOTH}, "times_as_long": {"D=64": BOTH}},
    "errors": {"bfloat16": {"D=64": 1e-3}},
    "errors with decay": {"bfloat16": {"D=64": 2e-3}},
    "errors of decoding": {"D=64": {"plain": 1e-3, "chunked": 1e-3}},
    "decoding D=64": {"single": TIME, "plain": TIME, "chunked": TIME},
}  # fmt: skip
SETTINGS = {
    "turns": 5, "heads": 2, "width": 64, "values": 64, "tokens": 99, "flex_mode": "default", "words": 9,
    "vocabulary": 3, "epochs": 5, "threads": 2,
}  # fmt: skip
PARTS: dict[str, dict[str, Any]] = {
    "series_gpu": SERIES,
    "hybrid_gpu": SERIES,
    "window_gpu": {
        "T=8, W=2": {"T": 8, "W": 2, "ms": {"window": BOTH, "flex": BOTH}, "compared": dict.fromkeys(BOTH, FASTER)},
        "errors": {"bfloat16": 1e-3},
    },
    "recurrent_gpu": {
        "a": {"B": 1, "T": 2, "H": 3, "precision": "TF32", "errors": {"elman": 1e-3}, "kernels": {"elman": "cuDNN"},
              "ms": {"elman": MODES, "sigmoid loop": MODES}, "times_faster": {"elman / sigmoid loop": MODES}},
    },
    "grid_cuda": {
        "a": {"Y": 2, "X": 2, "B": 1, "H": 3, "dtype": "bfloat16", "ms_a_diagonal": 0.1, "ms": {"ours": TIME},
              "compared": {"ours, captured": FASTER}},
    },
    "words_gpu": {
        f"seed {seed}": {"width 9": {"words_per_second": [9, 8], "quality": {"sim": 0.4}}} for seed in (1, 2)
    },
    "words_processes_x86": {
        f"{processes} processes, 9 words, seed {seed}": {"sim": 0.4 + processes + seed / 1000}
        for processes in (1, 2) for seed in range(5)
    },
}  # fmt: skip
ROWS: dict[str, list[dict[str, Any]]] = {
    "language_table": [{**ROW, "recipe": "a", "perplexity": SPLITS}, {**ROW, "recipe": "a", "perplexity": SPLITS}],
    "language_attention": [{**ROW, "recipe": "a", "perplexity": SPLITS}],
    "images_table": [{**ROW, "recipe": "a", "accuracy": SPLITS}],
}


@pytest.mark.parametrize("name", [*PARTS, *ROWS])
def test_a_new_result_has_a_table_with_its_spread(name: str, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    made = {"parts": PARTS[name], "settings": SETTINGS} if name in PARTS else {"rows": ROWS[name]}
    file.write_text(json.dumps({"rules": RULES, **MACHINE, **made}))
    lines = tables.lines_of(tables.TABLES[name], file)
    assert lines[0].startswith("Measured on 2 threads of c, torch 2, peer not installed.")
    assert any("(0.9 to 1.1)" in line or "±" in line or "one seed" in line for line in lines)
    rows = [line for line in lines if line.startswith("|")]
    assert all(line.count("|") == other.count("|") for line, other in itertools.pairwise(rows) if "---" in other)


def test_no_table_shows_a_result_of_earlier_rules() -> None:
    files = [tables.HERE / "results" / f"{name}.json" for name in tables.TABLES]
    made = {file.stem: json.loads(file.read_text()) for file in files if file.exists()}
    assert {name for name, result in made.items() if result.get("rules", RULES) != RULES} == set()
    assert sum("rules" in result for result in made.values()) > 15


def test_every_result_that_is_kept_has_a_table() -> None:
    assert {file.stem for file in (tables.HERE / "results").glob("*.json")} <= tables.TABLES.keys()


def test_what_is_not_measured_is_told(tmp_path: Path) -> None:
    assert tables.lines_of(tables.TABLES["grid_x86"], tmp_path / "none.json") == ["*Not measured yet.*"]

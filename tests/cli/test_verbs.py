"""Each verb does what its help says, and its last line of standard output is the JSON that scripts rely on."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from tests.cli.child import Child
from tests.cli.conftest import TINY, Say
from tests.runs.tiny_runs import begin, write_text

from porism.claims.claim import Finding
from porism.claims.kept.experiments import EXPERIMENTS, KeptExperiment
from porism.claims.kept.result import KeptRun, read_kept
from porism.claims.ledger import all_claims
from porism.cli.compare import CompareCommand
from porism.cli.verbs import VERBS
from porism.layers.cases import LAYERS
from porism.runs.recipe import to_fields
from porism.tasks.graphs.task import Graphs
from porism.tasks.language.task import Language
from porism.training import session
from porism.training.experiment import Experiment

TRAIN_KEYS = {
    "task", "recipe", "run", "seed", "device", "parameters", "epochs", "seconds", "tokens_per_second", "metrics",
}  # fmt: skip


def last_line(out: str) -> Any:
    return json.loads(out.strip().splitlines()[-1])


def test_train_then_evaluate_predict_and_report(say: Say, text: Path) -> None:
    completed = say(["train", "language", "elman", "--json", "--out", "run", "--device", "cpu", "--data"], text, TINY)
    assert completed.code == 0
    assert completed.out.count("\n") == 1
    result = last_line(completed.out)
    assert result.keys() >= TRAIN_KEYS
    assert set(result["metrics"]) == {"train", "valid", "test"}
    assert set(result["metrics"]["test"]) == {"perplexity", "cross_entropy", "bits_per_byte"}
    assert result["parameters"] == result["cost"]["parameters"]["value"]
    told, written = (
        last_line(say(["cost", "language/elman", "--json"]).out),
        json.loads(Path("run/metrics.json").read_text()),
    )
    for kind in ("parameters", "flops", "backward"):
        told_formula = told["backward_flops" if kind == "backward" else kind]
        assert written["cost"][kind]["formula"] == told_formula
    for name in ("recipe.toml", "events.jsonl", "last", "best", "metrics.json", "report.html"):
        assert Path("run", name).exists(), name
    again = last_line(say(["evaluate", "run", "--json"]).out)
    assert again.keys() >= TRAIN_KEYS
    assert again["metrics"] == {"test": result["metrics"]["test"]}
    assert last_line(say(["evaluate", "run", "--split", "valid", "--json"]).out)["metrics"].keys() == {"valid"}
    assert say(["evaluate", "run", "--split", "nothing"]).code == 2
    text.unlink()
    completed = say("predict", "run", "the cat", "zzz", "--set=length=3", "--set=temperature=0", "--json")
    first, second = last_line(completed.out)["predictions"]
    assert first["prompt"] == "the cat"
    assert first["output"]
    assert "zzz" in " ".join(second["notes"])
    assert last_line(say(["report", "run", "--out", "page.html", "--json"]).out)["report"] == "page.html"
    assert Path("page.html").read_text().startswith("<!doctype html>")


def test_a_trained_number_has_the_interval_of_its_report_and_is_of_one_seed(say: Say, text: Path) -> None:
    out = say("train", "language", "elman", "--out", "run", "--device", "cpu", "--data", text, TINY).out
    told = re.search(r"\nTest perplexity of one seed: (\S+) \(95 % interval over (.+): (\S+ to \S+)\)\.\n", out)
    assert told is not None
    number, examples, ends = told.groups()
    assert (
        f"reaches a test perplexity of {number} ({examples}; 95 % confidence interval by the choice of test examples "
        f"alone: {ends})" in Path("run/report.html").read_text()
    )


def test_compare_makes_one_table_and_one_report(say: Say, text: Path) -> None:
    command = ["compare", "language", "elman", "lstm", "--out", "both", "--data", str(text), *TINY]
    completed = say(command)
    assert completed.code == 0
    assert "lstm" in completed.out
    assert "report: both/report.html" in completed.out
    before = Path("both/elman/metrics.json").stat().st_mtime_ns
    result = last_line(say(command, "--resume", "--json").out)
    assert [run["recipe"] for run in result["runs"]] == ["elman", "lstm"]
    assert all(run.keys() >= TRAIN_KEYS for run in result["runs"])
    assert Path(result["report"]).is_file()
    assert Path("both/elman/metrics.json").stat().st_mtime_ns == before


def test_compare_gives_every_recipe_the_same_budget(say: Say, text: Path) -> None:
    """elman alone has 12 epochs, attention 4: by default both may have 12, and the headline says so."""
    small = [
        "--set=hidden_size=8",
        "--set=embedding_dim=8",
        "--set=batch_size=4",
        "--set=seq_len=5",
        "--data",
        str(text),
    ]
    commands = [
        CompareCommand(task="language", recipes=["elman", "attention"], budget=budget)
        for budget in ("equal", "own", "epochs=2")
    ]
    found = [command.plan(Language).trainings for command in commands]
    assert [[one.request.recipe.epochs for one in trainings] for trainings in found] == [[12, 12], [12, 4], [2, 2]]
    completed = say(["compare", "language", "elman", "attention", "--budget=epochs=1", "--out", "both", *small])
    assert completed.code == 0
    assert "Equal budget: up to 1 epoch each." in " ".join(completed.out.split())
    assert "--budget epochs=1" in Path("both/report.html").read_text(encoding="utf-8")
    assert "--set epochs=1" in Path("both/elman/events.jsonl").read_text()


def test_compare_draws_a_split_for_each_seed_on_request() -> None:
    command = CompareCommand(task="graphs", recipes=["gcn"], seeds="2", set=["split=random", "split_seed=seed"])
    command._decide()
    requests = [planned.request for planned in command.plan(Graphs).trainings]
    assert [(one.seed, to_fields(one.recipe)["split_seed"]) for one in requests] == [(1, 1), (2, 2)]


def test_a_recipe_that_is_named_twice_is_refused(say: Say) -> None:
    completed = say(["compare", "language", "elman", "lstm", "elman", "--out", "both"])
    assert completed.code == 2
    assert "elman is named twice, which gives the same runs twice. Name each recipe once." in completed.err
    assert not Path("both").exists()


def test_a_run_that_diverges_does_not_end_a_comparison(say: Say, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rates = Experiment("rates", "Which rate?", ("elman",), values={"learning_rate": (1e12, 0.01)}, seeds=1)
    monkeypatch.setitem(cast("dict[str, Experiment]", Language.experiments), "rates", rates)
    command = ["compare", "language", "rates", "--out", "rates", "--data", str(text), *TINY]
    completed = say(command, "--json")
    assert completed.code == 0, completed.err
    lost, kept = last_line(completed.out)["runs"]
    assert "metrics" in kept
    assert "training cannot go on" in lost["diverged"]
    assert "diverged, so there is no number to compare." in completed.err
    before = Path("rates/elman-learning_rate=1000000000000.0-seed-1/events.jsonl").read_bytes()
    again = say(command, "--json", "--resume")
    assert last_line(again.out)["runs"][0] == lost
    assert Path("rates/elman-learning_rate=1000000000000.0-seed-1/events.jsonl").read_bytes() == before


def test_compare_tells_means_over_seeds(say: Say, text: Path) -> None:
    command = [
        "compare",
        "language",
        "elman",
        "--seeds",
        "7,9",
        "--out",
        "many",
        "--data",
        str(text),
        *TINY,
    ]
    completed = say(command)
    assert completed.code == 0
    assert "±" in completed.out
    assert sorted(path.name for path in Path("many").iterdir() if path.is_dir()) == ["elman-seed-7", "elman-seed-9"]
    assert [run["seed"] for run in last_line(say(command, "--resume", "--json").out)["runs"]] == [7, 9]


def test_an_experiment_is_trained_and_concluded(say: Say, text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Experiment(
        "size-question", "Does size help?", ("elman", "lstm"), {"learning_rate": (0.1, 0.01)}, seeds=2
    )
    monkeypatch.setitem(cast("dict[str, Experiment]", Language.experiments), experiment.name, experiment)
    completed = say(["compare", "language", "size-question", "--out", "sizes", "--data", str(text), *TINY])
    assert completed.code == 0
    assert "Does size help?" in completed.out
    assert "in pairs over 2 seeds" in " ".join(completed.out.split())
    assert len([path for path in Path("sizes").iterdir() if path.is_dir()]) == 8
    refused = say(["train", "language", "size-question"])
    assert refused.code == 2
    assert "porism compare language size-question" in refused.err
    assert say(["compare", "language", "elman", "size-question"]).code == 2
    assert "size-question" in say(["train", "language", "--recipes"]).out


def test_a_run_repeats_from_its_recipe_file(say: Say, text: Path) -> None:
    first = last_line(say(["train", "language", "--json", "--out", "one", "--seed", "3", "--data"], text, TINY).out)
    again = last_line(
        say(["train", "language", "one/recipe.toml", "--json", "--out", "two", "--seed", "3", "--data"], text).out
    )
    assert again["metrics"] == first["metrics"]


def test_runs_get_new_folders(say: Say, text: Path) -> None:
    for name in ("runs/language-elman", "runs/language-elman-2"):
        assert last_line(say(["train", "language", "--json", "--data"], text, TINY).out)["run"] == name


def press_ctrl_c_after_the_first_epoch() -> None:
    """From within, so that the signal comes at the same moment on a busy machine."""
    write = sys.stdout.write

    def writing(words: str) -> int:
        if words.startswith("epoch   1"):
            os.kill(os.getpid(), signal.SIGINT)
        return write(words)

    sys.stdout.write = writing  # type: ignore[method-assign]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_ctrl_c_saves_and_resume_finishes(say: Say, text: Path, tmp_path: Path) -> None:
    command = ["train", "language", "--device", "cpu", "--data", str(text), *TINY, "--set=epochs=4", "--set=patience=4"]
    straight = last_line(say(command, "--json", "--out", "straight").out)
    stopped = Child([*command, "--out", "run"], tmp_path, press_ctrl_c_after_the_first_epoch)
    assert stopped.end() == (130, "porism: stopped, and saved. Go on with: porism train --resume run\n")
    assert [json.loads(line)["event"] for line in Path("run/events.jsonl").read_text().splitlines()][-1] == "interrupt"
    resumed = last_line(say("train", "--resume", "run", "--json").out)
    assert (resumed["epochs"], resumed["metrics"]) == (4, straight["metrics"])


def test_check_gradients_passes(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    # Two layers for the command; the contract's tests put every layer through it.
    few = {name: LAYERS[name] for name in ("elman", "readout")}
    monkeypatch.setattr("porism.testing.gradients.LAYERS", few)
    completed = say(["check", "gradients", "--json"])
    result = last_line(completed.out)
    assert completed.code == 0
    assert result["failed"] == 0
    assert result["passed"] == len(result["checks"])
    assert {row["name"].split(".")[0] for row in result["checks"]} == set(few)
    assert all(row.keys() == {"name", "verdict", "measured", "tolerance"} for row in result["checks"])
    assert all(row["measured"] <= row["tolerance"] for row in result["checks"])


def test_check_claims_decides_and_writes_the_ledger(say: Say) -> None:
    completed = say(["check", "claims", "--topic", "graphs", "--out", "ledger.html", "--json"])
    result = last_line(completed.out)
    assert completed.code == 0
    assert result["failed"] == 0
    rows = {row["name"]: row for row in result["checks"]}
    assert result["passed"] == len(rows)
    assert rows["000-24"].items() >= {"verdict": "pass", "ledger": "wrong", "topic": "graphs"}.items()
    assert rows["000-24"]["measured"] <= rows["000-24"]["tolerance"]
    assert "000-24" in Path("ledger.html").read_text()
    alone = say(["check", "claims", "--id", "000-24"])
    assert "1 passed, 0 failed" in alone.out


def test_check_leaves_with_1_when_a_claim_fails(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    claims = dict(all_claims())
    claims["000-24"] = dataclasses.replace(claims["000-24"], judge=lambda form: Finding(0.0, 1.0, "all is well"))  # type: ignore[call-arg]
    monkeypatch.setattr(sys.modules["porism.claims.ledger"], "all_claims", lambda: claims)
    completed = say(["check", "claims", "--topic", "graphs"])
    assert completed.code == 1
    assert "1 failed" in completed.out


def test_a_judge_that_raises_fails_its_claim_and_the_others_are_told(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    def judge(form: object) -> Finding:
        raise KeyError("no such graph")

    claims = dict(all_claims())
    claims["000-24"] = dataclasses.replace(claims["000-24"], judge=judge)  # type: ignore[call-arg]
    monkeypatch.setattr(sys.modules["porism.claims.ledger"], "all_claims", lambda: claims)
    completed = say(["check", "claims", "--topic", "graphs", "--json"])
    rows = {row["name"]: row for row in last_line(completed.out)["checks"]}
    assert completed.code == 1
    assert rows["000-24"]["evidence"] == "the check itself failed: KeyError: 'no such graph'"
    assert {row["verdict"] for number, row in rows.items() if number != "000-24"} == {"pass"}


def test_what_only_training_tells_is_open_and_counted_apart(say: Say, tmp_path: Path) -> None:
    completed = say(["check", "claims", "--id", "003-36a", "--kept", str(tmp_path), "--json"])
    (row,) = last_line(completed.out)["checks"]
    assert row.items() >= {"verdict": "open", "by": None, "answer": None, "ledger": "empirical"}.items()
    assert row["side_fact"].startswith("438 and 431 right of 529")
    assert "0 passed, 0 failed, 1 open" in completed.err


def test_a_kept_result_is_made_anew(say: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [KeptRun({"T": T}, None, {"milliseconds": T**2 / 1e6}) for T in (4096, 8192)]
    experiment = KeptExperiment("attention-speed", timed=lambda: runs)
    monkeypatch.setattr("porism.claims.kept.experiments.EXPERIMENTS", {**EXPERIMENTS, experiment.name: experiment})
    completed = say(["check", "claims", "--rerun", "002-07", "--out", "kept/attention-speed.json", "--json"])
    assert last_line(completed.out)["answers"] == {"002-07a": True}
    decided = last_line(say(["check", "claims", "--id", "002-07a", "--kept", "kept", "--json"]).out)["checks"][0]
    assert decided.items() >= {"verdict": "pass", "by": "kept run", "answer": True}.items()
    assert "17 ms for 4,096 tokens, 67 ms for 8,192 tokens" in decided["evidence"]
    # Without --out it is told beside the one that is kept.
    assert "67" in say(["check", "claims", "--rerun", "attention-speed"]).out


def test_a_kept_result_is_trained_anew(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def train(command: CompareCommand) -> int:
        """In place of a whole comparison with its reports."""
        assert (command.task, command.recipes, command.seeds) == ("language", ["wide", "widest"], "5")
        assert command.out is not None
        for name, D, H in (("wide", 256, 512), ("widest", 3, 4)):
            widths = (f"embedding_dim={D}", f"hidden_size={H}")
            session.complete(begin(command.out / name, write_text(tmp_path), *widths))
        return 0

    monkeypatch.setattr(CompareCommand, "run", train)
    completed = say(["check", "claims", "--rerun", "000-25", "--out", "language-widths.json"])
    assert completed.code == 0
    assert "000-25b: not decided. 1 seed, where 5 are needed" in " ".join(completed.out.split())
    kept = read_kept("language-widths", Path())
    assert kept is not None
    assert [run.settings for run in kept.runs] == [
        {"recipe": "elman", "embedding_dim": D, "hidden_size": H} for D, H in ((256, 512), (3, 4))
    ]
    for run in kept.runs:
        assert run.seed == 5
        expected = {"test.perplexity", "valid.cross_entropy@1", "epochs", "best_epoch", "epoch_seconds"}
        assert expected <= run.numbers.keys()
    assert (kept.data, kept.command) == ("ptb", EXPERIMENTS["language-widths"].command)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("000-24", "claim 000-24 is decided by computation"),
        ("000-32", "no run decides it. People have to read it."),
        ("999-99", "there is no claim and no kept result '999-99'"),
    ],
)
def test_what_no_run_decides_is_not_run(say: Say, name: str, message: str) -> None:
    completed = say(["check", "claims", "--rerun", name])
    assert completed.code == 2
    assert message in completed.err


def test_data_lists_what_is_known(say: Say, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "cache"))
    listed = last_line(say(["data", "list", "--json"]).out)["data"]
    assert {row["name"] for row in listed} >= {"manual", "synthetic", "ptb", "wikitext-2"}
    path = last_line(say(["data", "path", "ptb", "--json"]).out)["path"]
    assert path == str(tmp_path / "cache" / "ptb")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself_with_an_example(say: Say, verb: str) -> None:
    completed = say(verb, "--help")
    assert completed.code == 0
    assert f"porism {verb}" in completed.out
    assert "--json" in completed.out


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m porism recipes | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, env={**os.environ})
    assert done.stderr == ""

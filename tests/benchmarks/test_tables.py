import json

import pytest

import tables


def test_the_tables_people_read_are_what_the_results_say() -> None:
    text = (tables.HERE / "README.md").read_text()
    assert tables.written(text) == text, "Run python benchmarks/tables.py."


def test_mechanisms_stand_in_the_order_of_valid() -> None:
    """As the text above the table says, by the mean over seeds."""
    file = tables.HERE / "results" / "language_attention.json"
    valid: dict[str, float] = {}
    for row in json.loads(file.read_text())["rows"]:
        valid[row["recipe"]] = valid.get(row["recipe"], 0.0) + row["perplexity"]["valid"]
    lines = tables.lines_of(tables.TABLES["language_attention"], file)
    shown = [name for line in lines for name in valid if line.startswith(f"| {name} |")]
    assert shown == sorted(valid, key=lambda name: valid[name])


@pytest.mark.parametrize("name", ["counters", "counters_cuda", "real_models", "architectures", "followed_gpu"])
def test_a_table_of_counts_names_its_machine(name: str) -> None:
    """Which operators run depends on it."""
    result = json.loads((tables.HERE / "results" / f"{name}.json").read_text())
    assert (result["hardware"]["gpu"] or result["hardware"]["cpu"]) in tables.TABLES[name](result)[0]


def test_a_slower_way_is_not_called_faster() -> None:
    found = {"times_faster": {"median": 0.753, "low": 0.744, "high": 0.782}, "best_peer": "peer, dense"}
    cora = {"compared": {"ours": found}, "epochs": 1, "turns": 1, "ways": {}, "refused": {}}
    hardware = {"gpu": None, "threads": 1, "cpu": "a CPU", "cores": 1}
    result = {"parts": {"cora": cora}, "hardware": hardware, "versions": {"torch": "2"}}
    text = "\n".join(tables.TABLES["graphs_x86"](result))
    assert "On Cora the fastest peer, dense, takes 0.753 (0.744 to 0.782) times as long as ours." in text
    assert "1 thread of a CPU" in text


def test_only_what_is_decided_differs_from_one_process() -> None:
    hardware = {"gpu": None, "threads": 1, "cpu": "a CPU", "cores": 1}
    noise = (0.01, -0.02, 0.015, -0.01, 0.005)

    def said(seeds: int) -> str:
        parts = {
            f"{name}, 9 words, seed {seed}": {"loss": 7 + shift + sign * noise[seed], "sim": 0.4 + sign * noise[seed]}
            for name, shift, sign in (("1 process", 0.0, 1), ("2 processes", 0.5, -1))
            for seed in range(seeds)
        }
        return tables.TABLES["words_processes_x86"]({"parts": parts, "hardware": hardware, "versions": {}})[-1]

    assert said(5).endswith("for 2 comparisons: 2 processes, 9 words in loss.")
    assert "not decided" in said(4)

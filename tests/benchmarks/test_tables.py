import json

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


def test_a_slower_way_is_not_called_faster() -> None:
    found = {"times_faster": {"median": 0.753, "low": 0.744, "high": 0.782}, "best_peer": "peer, dense"}
    cora = {"compared": {"ours": found}, "epochs": 1, "turns": 1, "ways": {}, "refused": {}}
    hardware = {"gpu": None, "threads": 1, "cpu": "a CPU", "cores": 1}
    result = {"parts": {"cora": cora}, "hardware": hardware, "versions": {"torch": "2"}}
    text = "\n".join(tables.TABLES["graphs_x86"](result))
    assert "On Cora the fastest peer, dense, takes 0.753 (0.744 to 0.782) times as long as ours." in text
    assert "1 thread of a CPU" in text

import tables


def test_the_tables_people_read_are_what_the_results_say() -> None:
    text = (tables.HERE / "README.md").read_text()
    assert tables.written(text) == text, "Run python benchmarks/tables.py."

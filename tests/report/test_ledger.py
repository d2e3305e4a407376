"""The ledger as a page and as Markdown."""

import re
from pathlib import Path

import pytest

from porism.errors import RunError
from porism.report.ledger import Row, ledger_markdown, ledger_page, write_ledger
from porism.runs.exhibits import Lines

PLOT = Lines(title="Growth", x="n", y="sum", lines={"a": [(1.0, 1.0), (2.0, 4.0)]})
ROWS = [
    Row("000-01", "graphs", "I", "Rows sum to one & more.", "wrong", "They do not.", ("d_i/2",), "pass", "2 | 1",
        "equal", check="computed", picture=PLOT),
    Row("000-02", "graphs", "I", "It is so.", "holds", "", (), "fail", "equal", "3 is true", check="failed"),
    Row("000-03", "words", "II", "It trains.", "empirical", "", (), "open", "", "", check="open: no run decides it yet",
        kept="1 seed", side_fact="7 = 7", reason="Text8 stands in.", command="porism train words", needs="text8"),
]  # fmt: skip
TOPICS = {"graphs": "Graphs", "words": "Words", "speech": "Speech"}


def test_the_page_tells_all_of_a_claim() -> None:
    page = ledger_page(ROWS, TOPICS)
    for text in (
        "Rows sum to one &amp; more.",
        "They do not.",
        "<msub>",
        "2 | 1",
        "porism train words",
        "text8",
        "<svg",
    ):
        assert text in page, text
    assert "3 statements: 1 wrong, 1 holds, 1 empirical" in page
    assert page.count("The check failed.") == 1
    assert "<script" not in page
    assert "Speech" not in page


def test_filters_hide_what_is_not_chosen() -> None:
    page = ledger_page(ROWS, TOPICS)
    for name, values in (("topic", ["graphs", "words"]), ("verdict", ["wrong", "holds", "empirical"])):
        for value in values:
            assert f'id="{name}-{value}"' in page
            assert f'main:has(#{name}-{value}:checked) [data-{name}]:not([data-{name}="{value}"])' in page
    assert re.findall(r'data-verdict="([\w ]+)">', page) == ["wrong", "holds", "empirical"]


def test_markdown_has_a_row_for_each() -> None:
    text = ledger_markdown(ROWS, TOPICS)
    assert "| 000-01 | Rows sum to one & more. | wrong | They do not. | computed |" in text
    assert "| 000-03 | It trains. | empirical | Text8 stands in. 1 seed. `porism train words` text8 | open: " in text
    assert ledger_markdown(ROWS, TOPICS, "1 computed").count("Of these 1 computed.") == 1
    assert "| wrong | 1 |" in text


def test_the_suffix_decides(tmp_path: Path) -> None:
    assert write_ledger(ROWS, TOPICS, tmp_path / "a.html").read_text().startswith("<!doctype html>")
    assert write_ledger(ROWS, TOPICS, tmp_path / "a.md").read_text().startswith("# The ledger")
    with pytest.raises(RunError, match="as .html or .md"):
        write_ledger(ROWS, TOPICS, tmp_path / "a.txt")

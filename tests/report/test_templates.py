"""Templates escape what they are given, and a value they lack is an error."""

import pytest
from jinja2 import UndefinedError

from porism.report.templates import plain, render
from porism.runs.exhibits import Table


def test_values_are_escaped() -> None:
    table = Table(title="<b>", about="a & b", columns=['"x"'], rows=[["<i>"]])
    text = render("exhibit.html", exhibit=table, kind="Table", content=[('"x"', False)], missing="")
    assert "<b>" not in text
    assert "<i>" not in text
    assert "<h3>&lt;b&gt;</h3>" in text
    assert "a &amp; b" in text
    assert "<td>&lt;i&gt;</td>" in text


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="conclusion"):
        render("page.html", title="a page")


def test_settings_read_as_people_write_them() -> None:
    assert plain([True, 12_000, 9_999, 0.5, "none"]) == "yes, 12,000, 9999, 0.5, none"

"""Plots are text where they show text."""

import warnings
from typing import Any

import pytest

from porism.report.drawing import draw

pytest.importorskip("matplotlib")


def titled(axes: Any) -> None:
    axes.set_title("日本語 café")


def test_letters_of_any_language_stay_letters_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svg = draw(titled)
    assert "日本語 café" in svg

"""Pages from the templates in templates/: whatever they are given is escaped, unless it is markup already."""

from functools import cache
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from porism.report import numbers
from porism.report.drawing import series
from porism.report.formula import mathml
from porism.report.template_environment import template_environment


def render(name: str, **values: Any) -> Markup:
    """A template with these values: a whole page or a part of one."""
    return Markup(_environment().get_template(name).render(values))


@cache
def _environment() -> Environment:
    environment = template_environment("porism.report")
    for function in (numbers.count, numbers.amount, numbers.score, numbers.difference, numbers.percent):
        environment.filters[function.__name__] = function
    for shown in (numbers.brief, numbers.duration, numbers.metric_name):
        environment.filters[shown.__name__] = shown
    environment.filters["plain"] = plain
    environment.filters["series"] = series
    environment.filters["mathml"] = _formula
    environment.globals["MISSING"] = numbers.MISSING
    return environment


def _formula(formula: str) -> Markup:
    return Markup(mathml(formula))


def plain(value: Any) -> str:
    """A setting as people write it.

    >>> plain([True, 12000])
    'yes, 12,000'
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(plain(item) for item in value)
    return f"{value:,}" if isinstance(value, int) and abs(value) >= 10_000 else f"{value}"

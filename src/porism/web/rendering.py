"""Pages from templates/: whatever they are given is escaped, unless it is markup already."""

from functools import cache
from typing import Any

from jinja2 import Environment

from porism.report.template_environment import template_environment


def render(name: str, values: dict[str, Any]) -> str:
    """A template with these values."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    return template_environment("porism.web")

"""Who reads the output: a person, or with --json a program, whose one line is the last of standard output."""

import json
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console


def console_for(json_wanted: bool) -> Console:
    """Where words for people go."""
    # A table that is cut to 80 columns in a log file helps nobody.
    console = Console(file=sys.stderr if json_wanted else sys.stdout)
    return console if console.is_terminal else Console(file=console.file, width=160)


def print_json(result: Mapping[str, Any]) -> None:
    """The one line for programs."""
    print(json.dumps(dict(result)), flush=True)

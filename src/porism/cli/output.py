"""Who reads the output: a person, or with --json a program, whose one line is the last of standard output."""

import json
import os
import sys
from collections.abc import Mapping
from typing import Any, TextIO, cast

from rich.console import Console
from rich.text import Text

from porism.files import without_nan
from porism.training.output import Output


def console_for(json_wanted: bool, *, patient: bool = False) -> Console:
    """Where words for people go.

    patient: for work that must not break off in the middle because nobody reads of it.
    """
    file = cast("TextIO", Output(sys.stderr if json_wanted else sys.stdout, patient=patient))
    console = Console(file=file, emoji=False)
    if console.is_terminal or os.environ.get("COLUMNS", "").isdigit():
        return console
    # A table that is cut to 80 columns in a log file helps nobody.
    return Console(file=file, emoji=False, width=160)


def tell(console: Console, line: str, style: str = "") -> None:
    """Print a line as it is: brackets in a folder's name are no markup, and long paths stay whole."""
    console.print(Text(line, style), soft_wrap=True)


def lost(console: Console) -> str:
    """Why no output can be written any more; empty while it can."""
    return console.file.lost if isinstance(console.file, Output) else ""


def print_json(result: Mapping[str, Any]) -> None:
    """The one line for programs."""
    print(json.dumps(without_nan(dict(result))), file=cast("TextIO", Output(sys.stdout)), flush=True)

"""Numbers and names that no task can take: refused before anything is written."""

import dataclasses
import errno
import math
import os
from pathlib import Path
from typing import Any

from porism.errors import RecipeError

LONGEST_INNER = "last.previous/optimizer.safetensors"
"""What must still fit after the name of a run's folder."""


def check_interval(seconds: float) -> None:
    """Refuse a time between checkpoints that never passes; inf leaves those within an epoch out."""
    if math.isnan(seconds) or seconds < 0:
        raise RecipeError(f"--checkpoint-every takes seconds from 0 on, got {seconds:g}. 0 saves after every step.")


def check_paths(command: Any) -> None:
    """Refuse a path among a verb's arguments that no file can have."""
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, Path):
                check_path(str(path))


def check_path(path: str) -> None:
    """Refuse a name that the system cannot hold, or that cannot be printed."""
    shown = repr(path if len(path) <= 60 else f"{path[:60]}...")
    try:
        path.encode()
        os.lstat(Path(path, LONGEST_INNER))
    except UnicodeEncodeError:
        raise RecipeError(f"the path {shown} is not text in UTF-8. Choose another name.") from None
    except ValueError:
        raise RecipeError(f"the path {shown} holds a zero byte. Choose another name.") from None
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise RecipeError(
                f"the path {shown} is too long for this system: {len(path)} letters. Choose a shorter name."
            ) from None

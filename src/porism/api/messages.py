"""Errors of the floors below, which name options of the command line, in Python's words."""

import re
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

from porism.errors import PorismError
from porism.runs.recipe import plain_value


def _call(command: re.Match[str]) -> str:
    """A command that trains, as the call that does."""
    words = shlex.split(command[1])
    pairs = list(pairwise(words))
    named = [f"{word[2:]}={plain_value(value)!r}" for word, value in pairs if word.startswith("--") and word != "--set"]
    fields = [value.partition("=") for word, value in pairs if word == "--set"]
    given = [*map(repr, words[:2]), *(f"{name}={plain_value(value)!r}" for name, _, value in fields), *named]
    return f"porism.train({', '.join(given)})"


PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"porism train ([\w-]+ [\w.-]+(?: --\w+ (?:'[^']*'|\S+))+)", _call),
    (
        r"--set takes field=value, got (.+?)\. Write for instance --set epochs=10\.",
        r"\1 sets no field. Write epochs=10.",
    ),
    (r" Set it with --set\.", ""),
    (r"Leave out --set\.", "Leave it out."),
    (r"porism train --resume (\S+)", lambda found: f"porism.load({found[1].strip(chr(39))!r}).resume()"),
    (r"Go on with it by --resume (.+?), or choose", r'Go on with it by porism.load("\1").resume(), or choose'),
    (r"Add --resume, or", "Add resume=True, or"),
    (r"--resume needs --out", "resume=True needs out="),
    (r"with --json", "in .details"),
    (r"--input and --with are for", "inputs are for"),
    (r"for instance --input ", "for instance "),
    (r"\.at or --at", ".at"),
    (r"--tensorboard needs", "TensorBoard needs"),
    (r"--analogy (\w+) (\w+) (\w+)", r'predict(["\1", "\2", "\3"], analogy=True)'),
    (r"`?porism (train|compare|predict|evaluate|report)`?(?! \w+ --)", r"porism.\1"),
)
"""Words of the command line, and those that take their place in Python."""
ASSIGNED = re.compile(r"--set\s+(\w+)=")
OPTION_WITH_VALUE = re.compile(
    r"--([a-z][a-z-]*) (?!(?:and|or|are|is|takes|needs|with|to|in|for|lists|which|names|anew)\b)([\w./{}=-]+[\w/}])"
)
SWITCHED_OFF = re.compile(r"--no-([a-z-]+)")
OPTION = re.compile(r"--([a-z][a-z-]*)")


def in_python(message: str) -> str:
    """A message with the arguments of a function where it names options of a command.

    >>> in_python("recipe elman: cannot be. Use --set tie_weights=false or --set hidden_size=50.")
    'recipe elman: cannot be. Use tie_weights=false or hidden_size=50.'
    >>> in_python("there is no device 'tpu'. Use --device auto, cpu or cuda.")
    "there is no device 'tpu'. Use device=auto, cpu or cuda."
    """
    for pattern, words in PHRASES:
        message = re.sub(pattern, words, message)
    message = ASSIGNED.sub(r"\1=", message)
    message = SWITCHED_OFF.sub(lambda found: f"{found[1].replace('-', '_')}=False", message)
    message = OPTION_WITH_VALUE.sub(lambda found: f"{found[1].replace('-', '_')}={found[2]}", message)
    return OPTION.sub(lambda found: found[1].replace("-", "_"), message)


@contextmanager
def python_words() -> Iterator[None]:
    """Errors that leave this speak of arguments, not of options."""
    try:
        yield
    except PorismError as error:
        message = in_python(str(error))
        if message != str(error):
            error.args = (message, *error.args[1:])
        raise

"""Modules joined into one script: a room loads one file, and a saved page needs none.

Imports go, exports become plain declarations, comments and indentation are left out, of style sheets too. The names at
the top of modules that are joined must differ, and no text in them may go over several lines, which a test holds.
"""

import re
from collections.abc import Mapping

IMPORT = re.compile(r'^import\b[^"\']*["\']\./([\w.-]+)["\'];[ \t]*\n?', re.MULTILINE)
EXPORT = re.compile(r"^export (?=(?:async )?(?:const|let|var|function|class)\b)", re.MULTILINE)
COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)[ \t]*\n", re.MULTILINE)
"""A comment that has its lines to itself."""
INDENT = re.compile(r"^[ \t]+|\n(?=\n)", re.MULTILINE)
"""Blanks at the beginning of a line, and lines that are empty."""


def joined(modules: Mapping[str, str], entry: str) -> str:
    """A module and all that it imports, each after what it imports itself.

    >>> modules = {"a.js": "export const a = 1;\\n", "b.js": 'import { a } from "./a.js";\\nexport const b = a + 1;\\n'}
    >>> print(joined(modules, "b.js"), end="")
    const a = 1;
    const b = a + 1;
    """
    ordered: list[str] = []

    def visit(name: str) -> None:
        for other in IMPORT.findall(modules[name]):
            if other not in ordered:
                visit(other)
        if name not in ordered:
            ordered.append(name)

    visit(entry)
    return bare("".join(EXPORT.sub("", IMPORT.sub("", modules[name])) for name in ordered))


def bare(text: str) -> str:
    """A script or a style sheet without the comments, blanks and empty lines that only its reader needs.

    >>> bare("/* Links */\\na {\\n  color: inherit;\\n}\\n")
    'a {\\ncolor: inherit;\\n}\\n'
    """
    return INDENT.sub("", COMMENT.sub("", text))

"""Words and punctuation marks: where a text of any language is cut.

>>> WORD.findall("Don't panic, he said: 3.14.")
["Don't", 'panic', ',', 'he', 'said', ':', '3.14', '.']
>>> spaced("Don't panic,\\nhe said.").split(" ")
["Don't", 'panic', ',', '\\n', 'he', 'said', '.']
"""

import re

IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese and Japanese characters: written without spaces, so that each is a token."""
_LETTER = rf"(?:(?![{IDEOGRAPHS}])\w)"
WORD = re.compile(rf"[{IDEOGRAPHS}]|\d+(?:[.,]\d+)+|{_LETTER}+(?:['’-]{_LETTER}+)*|[^\w\s]")
"""A character of those, a number with its points, a word with its hyphens and apostrophes, or a mark."""
_WORD_OR_END = re.compile(rf"{WORD.pattern}|\n")


def spaced(text: str) -> str:
    """The text with white space around every word and mark, its ends of lines kept."""
    return " ".join(_WORD_OR_END.findall(text))

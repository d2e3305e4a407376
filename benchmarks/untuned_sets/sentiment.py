"""Texts with scores: two of installed packages, where the score is the kind of text, and reviews that are made."""

import inspect
import io
import random
import re
import tokenize
from pathlib import Path
from typing import Any

import numpy as np

from untuned_sets.data_set import DataSet, write_table


def package_docs(path: Path) -> None:
    """First paragraphs of docstrings: of numpy (1), of Python's own modules (3), of scipy (5)."""
    import scipy.signal  # type: ignore[import-untyped]
    import scipy.special  # type: ignore[import-untyped]
    import scipy.stats  # type: ignore[import-untyped]

    standard = [__import__(name) for name in ("argparse", "ast", "collections", "datetime", "os", "random", "socket",
                                              "statistics", "string", "subprocess", "threading", "turtle")]  # fmt: skip
    sources = {1: [np, np.linalg, np.fft, np.random], 3: standard, 5: [scipy.stats, scipy.signal, scipy.special]}
    rows = []
    for score, modules in sources.items():
        found = {_first_paragraph(one) for module in modules for _, one in inspect.getmembers(module)}
        rows += [(text, score) for text in random.Random(5).sample(sorted(found - {""}), min(350, len(found) - 1))]
    write_table(path, ("text", "score"), rows)


def _first_paragraph(of: Any) -> str:
    told = inspect.getdoc(of) if callable(of) or inspect.ismodule(of) else None
    lines = [line for part in (told or "").split("\n\n") for line in [" ".join(part.split())] if len(line.split()) > 4]
    # A signature is no prose.
    return next((line[:300] for line in lines if not re.match(r"[\w.]+\(", line)), "")


def kinds_of_lines(path: Path) -> None:
    """Lines of Python's own modules: code (1), comments (3), docstrings (5)."""
    draw, found = random.Random(6), {1: set[str](), 3: set[str](), 5: set[str]()}
    for file in sorted(Path(str(inspect.__file__)).parent.glob("*.py")):
        source = file.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                found[3].add(token.string.strip("# "))
            elif token.type == tokenize.STRING and token.string.startswith('"""'):
                found[5] |= {line.strip() for line in token.string.strip('"').splitlines()}
            elif token.type == tokenize.NAME and token.line.count("\n") == 1 and "#" not in token.line:
                found[1].add(token.line.strip())
    kept = {score: sorted(line for line in lines if len(line.split()) > 3) for score, lines in found.items()}
    write_table(path, ("text", "score"), [(line, n) for n, lines in kept.items() for line in draw.sample(lines, 400)])


def mixed_reviews(path: Path) -> None:
    """Reviews of three sentences, two of which agree with the score and one does not; a tenth has a score by chance."""
    draw = random.Random(7)
    things = ("battery", "screen", "strap", "keyboard", "manual", "colour", "delivery", "price", "sound", "box")
    words = {
        1: ("awful", "broken", "useless", "a disappointment", "not worth it", "worse than expected"),
        3: ("average", "acceptable", "as described", "nothing special", "neither good nor bad", "fine I suppose"),
        5: ("excellent", "a joy", "better than expected", "worth every penny", "not bad at all", "flawless"),
    }
    openings = ("The {} is {}.", "I find the {} {}.", "To me the {} was {}.", "My {} turned out to be {}.")
    rows = []
    for _ in range(1200):
        score = draw.choice((1, 3, 5))
        said = [draw.choice(words[score]), draw.choice(words[score]), draw.choice(words[draw.choice((1, 3, 5))])]
        draw.shuffle(said)
        text = " ".join(draw.choice(openings).format(draw.choice(things), word) for word in said)
        rows.append((text, draw.choice((1, 3, 5)) if draw.random() < 0.1 else score))
    write_table(path, ("text", "score"), rows)


SETS = [
    DataSet("sentiment", "package-docs", "docstrings of three packages", package_docs, ".csv"),
    DataSet("sentiment", "kinds-of-lines", "code, comments and docstrings", kinds_of_lines, ".csv"),
    DataSet("sentiment", "mixed-reviews", "reviews with exceptions and wrong scores", mixed_reviews, ".csv"),
]

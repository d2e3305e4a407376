from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def grammar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences about animals and tools: words of one kind stand in the same positions."""
    draw = np.random.default_rng(5)
    kinds = {"animal": ["cat", "dog", "cow", "pig"], "tool": ["saw", "axe", "rake", "spade"]}
    verbs = {"animal": ["eats", "sleeps", "runs"], "tool": ["breaks", "rusts", "lies"]}
    lines = []
    for _ in range(4000):
        kind = str(draw.choice(list(kinds)))
        lines.append(f"the {draw.choice(kinds[kind])} {draw.choice(verbs[kind])} and {draw.choice(verbs[kind])}")
    file = tmp_path_factory.mktemp("words") / "grammar.txt"
    file.write_text("\n".join(lines))
    return file

"""Three sets of data a task that no default was tuned for: from installed packages, or made by the generators here.

    python benchmarks/untuned_data.py FOLDER              writes all of them; untuned.py does so by itself

| task | sets |
|---|---|
| language, words | docstrings of numpy; source code of Python's package email; scikit-learn's descriptions of data |
| images | letters in the fonts of matplotlib; patches of scikit-learn's two photographs; drawn shapes |
| graphs | people whose columns are chance; wines, each joined to its 5 nearest; Davis's southern women |
| sentiment | docstrings of three packages; lines of source, comments and prose; reviews with exceptions |
| supervised | scikit-learn's wine, breast cancer and diabetes (numbers, loss mse) |
| speech | digits spoken by espeak-ng; words in Morse code; numbers as the tones of a telephone |

The same packages give the same bytes: every draw is from a seed.
"""

import csv
import email
import inspect
import io
import random
import re
import tokenize
import wave
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tyro
from numpy.typing import NDArray

MOST_BYTES = 160_000
"""Of a text: the default recipe takes about half a minute for it on two cores."""
RATE = 16_000
"""Samples of a recording a second."""

Samples = NDArray[np.float64]


@dataclass(frozen=True)
class DataSet:
    """One set of data: how it is written to a path, and what a task must be told about it."""

    task: str
    name: str
    about: str
    write: Callable[[Path], None]
    ending: str = ""
    """Of the file; empty for a folder."""
    fields: dict[str, Any] = field(default_factory=dict)
    """Of the recipe, where the data decides them: a loss."""

    def made(self, folder: Path) -> Path:
        """Where it is, once it is written."""
        path = folder / self.task / f"{self.name}{self.ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self.write(path)
        return path


def numpy_docs(path: Path) -> None:
    docs = (inspect.getdoc(getattr(np, name, None)) or "" for name in sorted(np.__all__))
    _write_text(path, docs)


def email_source(path: Path) -> None:
    _write_text(path, (file.read_text() for file in sorted(Path(str(email.__file__)).parent.glob("*.py"))))


def sklearn_descriptions(path: Path) -> None:
    _write_text(path, (file.read_text() for file in sorted((_sklearn() / "datasets" / "descr").glob("*.rst"))))


def _sklearn() -> Path:
    import sklearn

    return Path(str(sklearn.__file__)).parent


def _write_text(path: Path, parts: Iterable[str]) -> None:
    path.write_bytes("\n\n".join(filter(None, parts)).encode()[:MOST_BYTES].decode(errors="ignore").encode())


def letters(path: Path) -> None:
    """A to H in each font that has them, turned by up to 15 degrees, of several sizes and places: 28 x 28."""
    import matplotlib
    from PIL import Image, ImageDraw, ImageFont

    draw = random.Random(1)
    # The others hold symbols of mathematics in place of letters.
    fonts = [f for f in sorted((Path(matplotlib.get_data_path()) / "fonts" / "ttf").glob("DejaVu*.ttf"))
             if "Display" not in f.name]  # fmt: skip
    for letter in "ABCDEFGH":
        for number in range(90):
            font = ImageFont.truetype(str(fonts[number % len(fonts)]), draw.randint(14, 24))
            picture = Image.new("L", (28, 28))
            place = draw.randint(1, 8), draw.randint(-4, 4)
            ImageDraw.Draw(picture).text(place, letter, fill=draw.randint(120, 255), font=font)
            _save(picture.rotate(draw.uniform(-15, 15), Image.Resampling.BILINEAR), path / letter, number)


def patches(path: Path) -> None:
    """Patches of 16 x 16 pixels, in colour, of scikit-learn's photographs: of a temple, or of a flower."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    draw = random.Random(2)
    for name, photograph in zip(("temple", "flower"), load_sample_images().images, strict=True):
        for number in range(300):
            y, x = (draw.randrange(side - 16) for side in photograph.shape[:2])
            _save(Image.fromarray(photograph[y : y + 16, x : x + 16]), path / name, number)


def shapes(path: Path) -> None:
    """A circle, a square, a triangle or a cross of any size and place, on noise: 24 x 24."""
    from PIL import Image, ImageDraw

    draw, noise = random.Random(3), np.random.default_rng(3)
    for kind in ("circle", "cross", "square", "triangle"):
        for number in range(150):
            picture = Image.fromarray(noise.integers(0, 110, (24, 24), dtype=np.uint8))
            pen, r, ink = ImageDraw.Draw(picture), draw.randint(3, 8), draw.randint(130, 255)
            x, y = draw.randint(r, 23 - r), draw.randint(r, 23 - r)
            if kind == "circle":
                pen.ellipse((x - r, y - r, x + r, y + r), outline=ink)
            elif kind == "square":
                pen.rectangle((x - r, y - r, x + r, y + r), outline=ink)
            elif kind == "triangle":
                pen.polygon([(x, y - r), (x - r, y + r), (x + r, y + r)], outline=ink)
            else:
                pen.line((x - r, y, x + r, y), fill=ink)
                pen.line((x, y - r, x, y + r), fill=ink)
            _save(picture, path / kind, number)


def _save(picture: Any, folder: Path, number: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    picture.save(folder / f"{number:03}.png")


def people(path: Path) -> None:
    """180 nodes of three classes, edges mostly within a class, columns of age and city drawn by chance."""
    draw = random.Random(4)
    label = [draw.randrange(3) for _ in range(180)]
    nodes = [(f"Person {n}", "abc"[label[n]], draw.randint(20, 60), draw.randint(0, 1)) for n in range(180)]
    edges = set()
    while len(edges) < 570:
        i, j = sorted(draw.sample(range(180), 2))
        if draw.random() < (0.9 if label[i] == label[j] else 0.1):
            edges.add((nodes[i][0], nodes[j][0]))
    _write_graph(path, ("age", "city"), nodes, edges)


def wines(path: Path) -> None:
    """178 wines of three growers, 13 measurements each, joined to the 5 with the nearest measurements."""
    from sklearn.datasets import load_wine
    from sklearn.neighbors import kneighbors_graph
    from sklearn.preprocessing import StandardScaler

    data = load_wine()
    near = kneighbors_graph(StandardScaler().fit_transform(data.data), 5).tocoo()
    nodes = [(n, f"grower {y}", *x) for n, (x, y) in enumerate(zip(data.data, data.target, strict=True))]
    _write_graph(path, data.feature_names, nodes, {(min(e), max(e)) for e in zip(near.row, near.col, strict=True)})


def southern_women(path: Path) -> None:
    """Which of 32 nodes is a woman and which an event, by who attended which: no edge joins two of a class."""
    import networkx as nx

    graph = nx.davis_southern_women_graph()
    nodes = [(name, "event" if data["bipartite"] else "woman") for name, data in graph.nodes(data=True)]
    _write_graph(path, (), nodes, graph.edges)


def _write_graph(path: Path, columns: Sequence[str], nodes: Iterable[Sequence[Any]], edges: Iterable[Any]) -> None:
    path.mkdir(parents=True, exist_ok=True)
    columns = [re.sub(r"\W", "_", column) for column in columns]
    _write_table(path / "nodes.csv", ("node", "label", *columns), nodes)
    _write_table(path / "edges.csv", ("source", "target"), sorted(edges))


def _write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([header, *rows])


def package_docs(path: Path) -> None:
    """First paragraphs of docstrings: of numpy (1), of Python's own modules (3), of scipy (5)."""
    import scipy.signal
    import scipy.special
    import scipy.stats

    standard = [__import__(name) for name in ("argparse", "ast", "collections", "datetime", "os", "random", "socket",
                                              "statistics", "string", "subprocess", "threading", "turtle")]  # fmt: skip
    sources = {1: [np, np.linalg, np.fft, np.random], 3: standard, 5: [scipy.stats, scipy.signal, scipy.special]}
    rows = []
    for score, modules in sources.items():
        found = {_first_paragraph(one) for module in modules for _, one in inspect.getmembers(module)}
        rows += [(text, score) for text in random.Random(5).sample(sorted(found - {""}), min(350, len(found) - 1))]
    _write_table(path, ("text", "score"), rows)


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
    _write_table(path, ("text", "score"), [(line, n) for n, lines in kept.items() for line in draw.sample(lines, 400)])


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
    _write_table(path, ("text", "score"), rows)


def sklearn_table(name: str) -> Callable[[Path], None]:
    """A table of scikit-learn's, its target last."""

    def write(path: Path) -> None:
        from sklearn import datasets

        data = getattr(datasets, f"load_{name}")()
        columns = [re.sub(r"\W", "_", str(column)) for column in data.feature_names]
        rows = ((*x, y) for x, y in zip(data.data.tolist(), data.target.tolist(), strict=True))
        _write_table(path, (*columns, "target"), rows)

    return write


def spoken_digits(path: Path) -> None:
    """One or two digits by six voices, several speeds and pitches."""
    from porism.tasks.speech.data.espeak import RATE as ESPEAK_RATE
    from porism.tasks.speech.data.espeak import SynthesisInput, speak

    draw = random.Random(8)
    digits = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    voices = ("en-us", "en-us+f3", "en-us+m1", "en-us+f1", "en-us+m5", "en-gb-x-rp")
    texts = [" ".join(draw.choices(digits, k=1 + number % 2)) for number in range(360)]
    spoken = speak(
        [SynthesisInput(text, draw.choice(voices), draw.randint(150, 210), draw.randint(30, 70)) for text in texts]
    )
    sounds = [np.frombuffer(sound, dtype="<i2").astype(np.float64) / 2**15 for sound in spoken]
    _write_recordings(path, zip(texts, sounds, strict=True), ESPEAK_RATE)


MORSE = {
    "a": ".-", "e": ".", "i": "..", "n": "-.", "o": "---", "r": ".-.", "s": "...", "t": "-", "d": "-..", "h": "....",
    "l": ".-..", "u": "..-",
}  # fmt: skip


def morse(path: Path) -> None:
    """Words of two to four letters out of twelve, dots of 40 to 60 ms, one of several pitches, with noise."""
    draw, noise = random.Random(9), np.random.default_rng(9)
    texts = ["".join(draw.choices(sorted(MORSE), k=draw.randint(2, 4))) for _ in range(360)]
    sounds = []
    for text in texts:
        dot, pitch = draw.uniform(0.04, 0.06), draw.uniform(400, 900)
        parts = []
        for letter in text:
            for sign in MORSE[letter]:
                parts += [_tone((pitch,), dot if sign == "." else 3 * dot), np.zeros(int(RATE * dot))]
            parts.append(np.zeros(int(RATE * 2 * dot)))
        sound = np.concatenate(parts)
        sounds.append(sound + 0.01 * noise.standard_normal(len(sound)))
    _write_recordings(path, zip(texts, sounds, strict=True), RATE)


KEYS = {
    "one": (697, 1209), "two": (697, 1336), "three": (697, 1477), "four": (770, 1209), "five": (770, 1336),
    "six": (770, 1477), "seven": (852, 1209), "eight": (852, 1336), "nine": (852, 1477), "zero": (941, 1336),
}  # fmt: skip
"""The two frequencies of each key, in Hz."""


def telephone(path: Path) -> None:
    """Two or three keys of a telephone, each two tones for 80 to 150 ms, with noise; transcribed in words."""
    draw, noise = random.Random(10), np.random.default_rng(10)
    rows = []
    for _ in range(360):
        keys = draw.choices(sorted(KEYS), k=draw.randint(2, 3))
        gap = np.zeros(int(RATE * draw.uniform(0.05, 0.1)))
        sound = np.concatenate([part for key in keys for part in (_tone(KEYS[key], draw.uniform(0.08, 0.15)), gap)])
        rows.append((" ".join(keys), sound + 0.01 * noise.standard_normal(len(sound))))
    _write_recordings(path, rows, RATE)


def _tone(frequencies: Sequence[float], seconds: float) -> Samples:
    time = np.arange(int(RATE * seconds)) / RATE
    return np.asarray(sum(0.3 * np.sin(2 * np.pi * frequency * time) for frequency in frequencies))


def _write_recordings(path: Path, recordings: Iterable[tuple[str, Samples]], rate: int) -> None:
    path.mkdir(parents=True, exist_ok=True)
    for number, (text, sound) in enumerate(recordings):
        with wave.open(str(path / f"{number:03}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
        (path / f"{number:03}.txt").write_text(text)


TEXTS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "numpy-docs": ("docstrings of numpy", numpy_docs),
    "email-source": ("source code of Python's package email", email_source),
    "sklearn-descriptions": ("scikit-learn's descriptions of its data", sklearn_descriptions),
}
SETS = [
    *(DataSet(task, name, *how, ".txt") for task in ("language", "words") for name, how in TEXTS.items()),
    DataSet("images", "letters", "8 letters in the fonts of matplotlib, turned", letters),
    DataSet("images", "patches", "patches of two photographs", patches),
    DataSet("images", "shapes", "4 shapes on noise", shapes),
    DataSet("graphs", "people", "3 classes, columns by chance", people),
    DataSet("graphs", "wines", "wine's 5 nearest neighbours", wines),
    DataSet("graphs", "southern-women", "bipartite, no features", southern_women),
    DataSet("sentiment", "package-docs", "docstrings of three packages", package_docs, ".csv"),
    DataSet("sentiment", "kinds-of-lines", "code, comments and docstrings", kinds_of_lines, ".csv"),
    DataSet("sentiment", "mixed-reviews", "reviews with exceptions and wrong scores", mixed_reviews, ".csv"),
    DataSet("supervised", "wine", "178 wines, 3 growers", sklearn_table("wine"), ".csv"),
    DataSet("supervised", "breast-cancer", "569 tumours, 2 kinds", sklearn_table("breast_cancer"), ".csv"),
    DataSet("supervised", "diabetes", "442 patients, a number", sklearn_table("diabetes"), ".csv", {"loss": "mse"}),
    DataSet("speech", "spoken-digits", "digits spoken by espeak-ng", spoken_digits),
    DataSet("speech", "morse", "words in Morse code", morse),
    DataSet("speech", "telephone", "numbers as tones of a telephone", telephone),
]


def main(folder: Path, /) -> None:
    """Write every set of data into a folder, in one a task."""
    for one in SETS:
        print(one.task, one.made(folder), flush=True)


if __name__ == "__main__":
    tyro.cli(main)

"""Evaluation sets of word vectors: similarities of words (WordSim353, SimLex999), and Google's analogies.

>>> scores = evaluate(Path("word-similarity"), words, vectors)      # doctest: +SKIP
>>> scores.metrics()                                                # doctest: +SKIP
{'wordsim353': 0.38, 'simlex999': 0.19, 'analogies': 0.02}

A folder holds one file or more of these, plain or as .gz or .xz:

    wordsim353.tsv, simlex999.txt   a line a pair: word, tab, word, tab, mean rating
    questions-words.txt             a line a question, `Athens Greece Oslo Norway`; `: name` begins a section

A word without a vector is tried in lower case. Pairs and questions with unknown words are left out, and counted.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import normalize

from porism.errors import DataError, shown
from porism.files import sha256_of_file, sha256_of_json
from porism.runs.exhibits import Table
from porism.tasks.blocks.download import COMPRESSED, read_content
from porism.tasks.blocks.ranks import ranks
from porism.tasks.blocks.texts import decoded
from porism.tasks.words.predict import word_ids

SIMILARITIES = ("wordsim353.tsv", "simlex999.txt")
ANALOGIES = "questions-words.txt"
BLOCK = 2**24
"""Scores of questions that are held at once: 64 MiB."""


@dataclass(frozen=True)
class Similarity:
    """Spearman's correlation of a file's ratings with the cosines; NaN where fewer than two pairs are known."""

    name: str
    correlation: float
    known: int
    pairs: int


@dataclass(frozen=True)
class Section:
    """Questions of one kind: all, those whose four words have vectors, and of them those answered rightly."""

    name: str
    right: int
    known: int
    questions: int

    @property
    def accuracy(self) -> float:
        """Of the known ones."""
        return self.right / self.known if self.known else math.nan


@dataclass(frozen=True)
class EvaluationScores:
    """The scores of word vectors on the evaluation sets of a folder."""

    similarities: tuple[Similarity, ...]
    sections: tuple[Section, ...]

    @property
    def total(self) -> Section:
        """All sections as one."""
        right, known, questions = (
            sum(getattr(section, name) for section in self.sections) for name in ("right", "known", "questions")
        )
        return Section("total", right, known, questions)

    def metrics(self) -> dict[str, float]:
        """The correlations and the accuracy of all analogies, where they are defined."""
        metrics = {similarity.name: similarity.correlation for similarity in self.similarities}
        metrics["analogies"] = self.total.accuracy
        return {name: value for name, value in metrics.items() if math.isfinite(value)}

    def tables(self) -> list[Table]:
        """For the report, a table each for similarities and analogies, where there are any."""
        shown = []
        if self.similarities:
            shown.append(
                Table(
                    title="Correlation with human similarity ratings",
                    about="Spearman's rank correlation between human ratings of pairs of words and the cosines, "
                    "over pairs whose two words have vectors.",
                    columns=["evaluation set", "pairs", "known", "correlation"],
                    rows=[[one.name, one.pairs, one.known, _shown(one.correlation)] for one in self.similarities],
                )
            )
        if self.sections:
            shown.append(
                Table(
                    title="Analogies",
                    about="a is to b as c is to what? The word nearest to b - a + c, the three left out, is right or "
                    "wrong; over questions whose four words have vectors.",
                    columns=["section", "questions", "known", "right", "accuracy"],
                    rows=[
                        [one.name, one.questions, one.known, one.right, _shown(one.accuracy)]
                        for one in (*self.sections, self.total)
                    ],
                )
            )
        return shown


def evaluate(folder: Path, words: Sequence[str], vectors: Tensor) -> EvaluationScores:
    """The scores of vectors (V, D) for V words on every known file of the folder."""
    files = _files(folder)
    if not files:
        raise DataError(
            f"{folder}: no evaluation set in it. Put {', '.join(SIMILARITIES)} or {ANALOGIES} there, plain, .gz or .xz."
        )
    return EvaluationScores(
        tuple(similarity(files[name], words, vectors) for name in SIMILARITIES if name in files),
        analogies(files[ANALOGIES], words, vectors) if ANALOGIES in files else (),
    )


def checksum(folder: Path) -> str:
    """The sha256 of what `evaluate` reads."""
    return sha256_of_json({name: sha256_of_file(file) for name, file in _files(folder).items()})


def _files(folder: Path) -> dict[str, Path]:
    return {name: file for name in (*SIMILARITIES, ANALOGIES) if (file := _kept(folder / name))}


def similarity(file: Path, words: Sequence[str], vectors: Tensor) -> Similarity:
    """The correlation of cosines with the ratings of one file."""
    numbers = word_ids(vectors, words)
    rated = [(_number(a, numbers), _number(b, numbers), mean) for a, b, mean in read_pairs(file)]
    known = [(a, b, mean) for a, b, mean in rated if a is not None and b is not None]
    firsts, seconds = (normalize(vectors[[pair[side] for pair in known]].double()) for side in (0, 1))
    means = torch.tensor([mean for *_, mean in known], dtype=torch.float64)
    return Similarity(file.name.split(".")[0], spearman((firsts * seconds).sum(1).cpu(), means), len(known), len(rated))


def analogies(file: Path, words: Sequence[str], vectors: Tensor) -> tuple[Section, ...]:
    """The questions of one file, section by section."""
    numbers = word_ids(vectors, words)
    units = normalize(vectors.float())
    sections = []
    for name, questions in read_questions(file).items():
        ids = [[_number(word, numbers) for word in question] for question in questions]
        known = torch.tensor([row for row in ids if None not in row], dtype=torch.int64).view(-1, 4)
        right = sum(
            _right(block.to(units.device), units) for block in known.split(max(1, BLOCK // len(units))) if len(block)
        )
        sections.append(Section(name, right, len(known), len(questions)))
    return tuple(sections)


def _right(questions: Tensor, units: Tensor) -> int:
    """How many of the questions (n, 4) are answered rightly: units (V, D) of length 1."""
    a, b, c, d = questions.T
    scores = (units[b] - units[a] + units[c]) @ units.mT  # n D, D V -> n V
    scores.scatter_(1, questions[:, :3], -torch.inf)
    return int((scores.argmax(1) == d).sum())


def spearman(x: Tensor, y: Tensor) -> float:
    """The correlation of ranks, (n), (n) -> a number from -1 to 1; not a number where all are equal, or n is below 2.

    >>> spearman(torch.tensor([0.1, 0.2, 0.9]), torch.tensor([1, 5, 7]))
    1.0
    """
    if len(x) < 2:
        return math.nan
    a, b = (ranks(values) - (len(values) + 1) / 2 for values in (x, y))
    return float((a @ b) / ((a @ a) * (b @ b)).sqrt())


def read_pairs(file: Path) -> list[tuple[str, str, float]]:
    """Two words and their mean rating; lines that begin with # are left out."""
    pairs = []
    for number, line in _lines(file):
        if line.startswith("#"):
            continue
        try:
            a, b, mean = line.split("\t")
            rating = float(mean)
        except ValueError:
            rating = math.nan
        if not math.isfinite(rating):
            raise DataError(
                f"{file}, line {number}: {shown(line)}, expected word, tab, word, tab, number. Mend the line."
            )
        pairs.append((a, b, rating))
    if not pairs:
        raise DataError(f"{file}: no pair of words in it. Give a line a pair: word, tab, word, tab, number.")
    return pairs


def read_questions(file: Path) -> dict[str, list[list[str]]]:
    """Four words a question, by section."""
    sections: dict[str, list[list[str]]] = {}
    for number, line in _lines(file):
        if line.startswith(":"):
            questions = sections.setdefault(line[1:].strip(), [])
            continue
        question = line.split()
        if not sections:
            raise DataError(
                f"{file}, line {number}: {shown(line)} belongs to no section. Begin with a line such as `: family`."
            )
        if len(question) != 4:
            raise DataError(f"{file}, line {number}: {len(question)} words, expected four: a is to b as c is to d.")
        questions.append(question)
    if not any(sections.values()):
        raise DataError(f"{file}: no question in it. Give a line a question of four words, after `: section`.")
    return sections


def _lines(file: Path) -> Iterator[tuple[int, str]]:
    """Number and text of each line that is not empty."""
    text = decoded(read_content(file), str(file))
    return ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _kept(place: Path) -> Path | None:
    """The file, plain or compressed, or None."""
    return next((kept for end in ("", *COMPRESSED) if (kept := place.with_name(place.name + end)).is_file()), None)


def _number(word: str, numbers: Mapping[str, int]) -> int | None:
    return numbers.get(word, numbers.get(word.lower()))


def _shown(value: float) -> float | str:
    return value if math.isfinite(value) else ""

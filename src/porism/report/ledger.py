"""The ledger of claims as a page to filter and read, and as Markdown."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from porism.errors import RunError
from porism.report.document import write
from porism.report.exhibits import article
from porism.report.templates import render
from porism.runs.exhibits import AnyExhibit

TITLE = "The ledger: textbook statements, each decided by a machine"
ABOUT = (
    "What course solutions say, in our words, and what is true. For every statement a check computes both sides: how "
    "far the statement as it stands is from what is so, and how far another form of it is."
)
OUTCOMES = {"pass": "decided", "fail": "not as written here", "open": "needs training"}


@dataclass(frozen=True)
class Row:
    """A claim with what became of it."""

    id: str
    topic: str
    where: str
    says: str
    verdict: str
    precise: str
    formulas: tuple[str, ...]
    outcome: str
    stated: str
    """What the check saw of the statement."""
    other: str
    """And of its correction, or its rival."""
    command: str = ""
    needs: str = ""
    picture: AnyExhibit | None = None


def write_ledger(rows: Sequence[Row], topics: Mapping[str, str], to: Path) -> Path:
    """To a file .html or .md; `topics` say what each is about, in their order."""
    if to.suffix == ".html":
        return write(ledger_page(rows, topics), to)
    if to.suffix == ".md":
        return write(ledger_markdown(rows, topics), to)
    raise RunError(f"the ledger is written as .html or .md, got {to}. Choose {to.with_suffix('.html')}.")


def ledger_page(rows: Sequence[Row], topics: Mapping[str, str]) -> str:
    """The page. Its filters are radio buttons that the style sheet reads."""
    verdicts = dict.fromkeys(row.verdict for row in sorted(rows, key=lambda row: _VERDICTS.index(row.verdict)))
    return render(
        "ledger.html",
        title=TITLE,
        about=ABOUT,
        counts=_counts(rows),
        filters={
            "topic": [topic for topic in topics if any(row.topic == topic for row in rows)],
            "verdict": list(verdicts),
        },
        topics=topics,
        rows=rows,
        article=article,
        slug=_slug,
    )


def ledger_markdown(rows: Sequence[Row], topics: Mapping[str, str]) -> str:
    """The same for a reader of plain files. Pictures and what checks saw are the page's: digits differ by machine."""
    counts = Counter(row.verdict for row in rows)
    lines = [
        f"# {TITLE}",
        "",
        ABOUT,
        "",
        "Written by `porism check claims --out docs/ledger.md`; [how to add a claim](claims.md).",
        "",
    ]
    lines += ["| verdict | statements |", "|---|---|"]
    lines += [f"| {verdict} | {counts[verdict]} |" for verdict in _VERDICTS if counts[verdict]]
    for topic, about in topics.items():
        own = [row for row in rows if row.topic == topic]
        if own:
            lines += [
                "",
                f"## {about}",
                "",
                "| id | statement | verdict | what is right | check |",
                "|---|---|---|---|---|",
            ]
            lines += [_line(row) for row in own]
    return "\n".join(lines) + "\n"


_VERDICTS = ("wrong", "imprecise", "holds under assumptions", "holds", "empirical")


def _counts(rows: Sequence[Row]) -> str:
    outcomes = Counter(row.outcome for row in rows)
    decided = ", ".join(f"{outcomes[outcome]} {text}" for outcome, text in OUTCOMES.items() if outcomes[outcome])
    verdicts = Counter(row.verdict for row in rows)
    listed = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict])
    return f"{len(rows)} statements: {listed}. {decided[:1].upper() + decided[1:]}."


def _line(row: Row) -> str:
    right = (
        row.precise
        if not row.command
        else " ".join(part for part in (row.precise, f"`{row.command}`", row.needs) if part)
    )
    cells = (row.id, row.says, row.verdict, right, OUTCOMES[row.outcome])
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _slug(text: str) -> str:
    return text.replace(" ", "-")

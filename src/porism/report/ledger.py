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

TITLE = "The ledger: textbook statements, and what is true of each"
ABOUT = (
    "What course solutions say, in our words and with their own conditions, and what is true. Where a computation "
    "can decide, a check computes both sides: how far the statement as it stands is from what is so, and how far "
    "another form of it is. What only training or a clock can tell is empirical: a kept run decides it, or it stays "
    "open. A side fact is something near it that was computed, and decides nothing."
)
ORDERS = (
    "O is an upper bound, as the sources use it: no statement is refused for a bound that is larger than what was "
    "counted. Where such a statement holds, its exponents were found to be those that were counted, which is more than "
    "it says."
)


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
    check: str = ""
    """The outcome in words."""
    kept: str = ""
    """What a kept run says, or lacks."""
    side_fact: str = ""
    reason: str = ""
    """Why training does not decide it, or what stands in for the source's data."""
    command: str = ""
    needs: str = ""
    picture: AnyExhibit | None = None


def write_ledger(rows: Sequence[Row], topics: Mapping[str, str], to: Path, counts: str = "") -> Path:
    """To a file .html or .md; `topics` say what each is about, in their order, `counts` what was decided by what."""
    if to.suffix == ".html":
        return write(ledger_page(rows, topics, counts), to)
    if to.suffix == ".md":
        return write(ledger_markdown(rows, topics, counts), to)
    raise RunError(f"the ledger is written as .html or .md, got {to}. Choose {to.with_suffix('.html')}.")


def ledger_page(rows: Sequence[Row], topics: Mapping[str, str], counts: str = "") -> str:
    """The page. Its filters are radio buttons that the style sheet reads."""
    verdicts = dict.fromkeys(row.verdict for row in sorted(rows, key=lambda row: _VERDICTS.index(row.verdict)))
    return render(
        "ledger.html",
        title=TITLE,
        about=ABOUT,
        orders=ORDERS,
        counts=_counts(rows, counts),
        filters={
            "topic": [topic for topic in topics if any(row.topic == topic for row in rows)],
            "verdict": list(verdicts),
        },
        topics=topics,
        rows=rows,
        article=article,
        slug=_slug,
    )


def ledger_markdown(rows: Sequence[Row], topics: Mapping[str, str], counts: str = "") -> str:
    """The same for a reader of plain files. Pictures and what checks saw are the page's: digits differ by machine."""
    verdicts = Counter(row.verdict for row in rows)
    lines = [
        f"# {TITLE}",
        "",
        ABOUT,
        "",
        ORDERS,
        "",
        _counts(rows, counts),
        "",
        "Written by `porism check claims --out docs/ledger.md`; [how to add a claim](claims.md).",
        "",
    ]
    lines += ["| verdict | statements |", "|---|---|"]
    lines += [f"| {verdict} | {verdicts[verdict]} |" for verdict in _VERDICTS if verdicts[verdict]]
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


def _counts(rows: Sequence[Row], decided: str) -> str:
    verdicts = Counter(row.verdict for row in rows)
    listed = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict])
    return f"{len(rows)} statements: {listed}." + (f" Of these {decided}." if decided else "")


def _line(row: Row) -> str:
    right = [
        row.precise,
        row.reason,
        row.kept and f"{row.kept[:1].upper()}{row.kept[1:]}.",
        row.command and f"`{row.command}`",
        row.needs,
    ]
    cells = (row.id, row.says, row.verdict, " ".join(part for part in right if part), row.check)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def _slug(text: str) -> str:
    return text.replace(" ", "-")

"""The ledger of claims as a page to filter and read, and as Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from porism.errors import RunError
from porism.report.document import document, write
from porism.report.exhibits import article
from porism.report.formula import mathml
from porism.report.markup import section
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
    shown = [topic for topic in topics if any(row.topic == topic for row in rows)]
    verdicts = list(dict.fromkeys(row.verdict for row in sorted(rows, key=lambda row: _VERDICTS.index(row.verdict))))
    body = [
        f"<header><h1>{escape(TITLE)}</h1><p class=summary>{escape(ABOUT)}</p>{_sums(rows)}</header>",
        f"<form class=filters>{_filter('topic', shown)}{_filter('verdict', verdicts)}</form>",
        f"<style>{_rules('topic', shown)}{_rules('verdict', verdicts)}</style>",
    ]
    for topic in shown:
        content = "".join(_article(row) for row in rows if row.topic == topic)
        body.append(f'<div data-topic="{topic}">{section(topics[topic], content)}</div>')
    return document(escape(TITLE), "\n".join(body), "ledger.css")


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


def _sums(rows: Sequence[Row]) -> str:
    outcomes = Counter(row.outcome for row in rows)
    decided = ", ".join(f"{outcomes[outcome]} {text}" for outcome, text in OUTCOMES.items() if outcomes[outcome])
    verdicts = Counter(row.verdict for row in rows)
    listed = ", ".join(f"{verdicts[verdict]} {verdict}" for verdict in _VERDICTS if verdicts[verdict])
    return f"<p>{len(rows)} statements: {escape(listed)}. {escape(decided[:1].upper() + decided[1:])}.</p>"


def _filter(name: str, values: Iterable[str]) -> str:
    """All, and each value; one of them is chosen."""
    choices = [
        f'<label><input type=radio name={name} id="{name}-all" checked> all</label>',
        *(
            f'<label><input type=radio name={name} id="{name}-{_slug(value)}"> {escape(value)}</label>'
            for value in values
        ),
    ]
    return f"<fieldset><legend>{name}</legend>{''.join(choices)}</fieldset>"


def _rules(name: str, values: Iterable[str]) -> str:
    """Whatever is not of the chosen value is not shown."""
    return "".join(
        f'main:has(#{name}-{_slug(value)}:checked) [data-{name}]:not([data-{name}="{value}"]) {{ display: none; }}\n'
        for value in values
    )


def _article(row: Row) -> str:
    parts = [
        f'<article class="claim" id="claim-{row.id}" data-verdict="{row.verdict}">',
        f'<h3><a href="#claim-{row.id}">{row.id}</a> <span class="verdict {_slug(row.verdict)}">{row.verdict}</span>'
        f' <span class="aside">{escape(row.where)}</span></h3>',
        f"<p>{escape(row.says)}</p>",
    ]
    if row.precise:
        parts.append(f'<p class="precise">{escape(row.precise)}</p>')
    if row.formulas:
        parts.append('<p class="formulas">' + " ".join(mathml(formula) for formula in row.formulas) + "</p>")
    if row.outcome != "open":
        parts.append(_seen(row))
    if row.command:
        needs = f' <span class="aside">{escape(row.needs)}</span>' if row.needs else ""
        parts.append(f"<p><code>{escape(row.command)}</code>{needs}</p>")
    elif row.needs:
        parts.append(f'<p class="aside">{escape(row.needs)}</p>')
    if row.picture:
        parts.append(article(row.picture, f"claim-{row.id}"))
    return "".join(parts) + "</article>\n"


def _seen(row: Row) -> str:
    other = "another form" if row.verdict == "holds" else "as it is right"
    pairs = [("as stated", row.stated), (other, row.other)]
    listed = "".join(f"<div><dt>{name}</dt><dd>{escape(text)}</dd></div>" for name, text in pairs if text)
    failed = ' <strong class="failed">The check failed.</strong>' if row.outcome == "fail" else ""
    return f'<dl class="facts">{listed}</dl>{failed}'


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

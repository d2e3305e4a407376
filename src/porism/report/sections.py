"""The parts of the page. Each takes what it shows and gives a piece of HTML; all text goes through `escape`."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from porism.costing.alphabet import ALPHABET
from porism.errors import MissingExtra
from porism.report import curves, numbers
from porism.report.comparison import Entry, RunGroup, splits_of
from porism.report.formula import letters, mathml
from porism.report.markup import badge, facts, fold, name_cell, number_cell, plain, scrolled, section
from porism.report.table import columns, judged_by
from porism.runs.record import CostRecord, Metrics, RunRecord

COST_TITLES = {
    "parameters": "Parameters",
    "flops": "Forward FLOPs per {unit}",
    "backward": "Backward FLOPs per {unit}",
}


def summary(text: str, place: str | None) -> str:
    lead = f"<strong>{escape(place[0].upper() + place[1:])}.</strong> " if place else ""
    return f'<p class="summary">{lead}{escape(text)}</p>'


def shared_facts(entries: Sequence[Entry]) -> str:
    """What the task tells of its data and models, as far as it is the same for all runs: the split for instance."""
    known = [entry.record.metrics.facts for entry in entries if entry.record.metrics]
    same = (
        {name: value for name, value in known[0].items() if all(one.get(name) == value for one in known)}
        if known
        else {}
    )
    return facts(same)


def results(entries: Sequence[Entry]) -> str:
    """The table of runs: what each costs and what it reaches."""
    shown = columns(entries)
    head = "".join(f'<th scope="col"{" class=number" * made.numeric}>{escape(made.title)}</th>' for made in shown)
    rows = []
    for row, entry in enumerate(entries):
        cells = [
            number_cell(made.cells[row].text, made.cells[row].value, made.cells[row].best)
            if made.numeric
            else f"<td>{escape(made.cells[row].text)}</td>"
            for made in shown[1:]
        ]
        rows.append(name_cell(entry) + "".join(cells))
    return section("Results", f'<p class="aside">{escape(judged_by(entries))}.</p>' + scrolled(head, rows, "results"))


def one_of_each(runs: int) -> str:
    """What stands below where runs are many."""
    return (
        f'<p class="aside">Of these {numbers.count(runs)} runs one of each model, its first, is shown below. '
        "<code>porism report RUN</code> shows any other.</p>"
    )


def published(contests: Iterable[RunGroup]) -> str:
    """Measured beside published, split by split, where more than one split is published."""
    parts = []
    for contest in contests:
        entries = [entry for entry in contest.entries if entry.record.metrics and entry.record.metrics.published]
        splits = [
            split
            for split in splits_of(entry.record for entry in entries)
            if any(contest.published(entry, split) is not None for entry in entries)
        ]
        if len(splits) > 1:
            head = "<th>model</th>" + "".join(
                f"<th class=number>{escape(split)}</th><th class=number>published</th><th class=number>difference</th>"
                for split in splits
            )
            rows = [name_cell(entry) + "".join(_beside(contest, entry, split) for split in splits) for entry in entries]
            parts.append(scrolled(head, rows, f"{contest.metric_name} measured and published"))
    return section("Measured beside published", "".join(parts)) if parts else ""


def _beside(contest: RunGroup, entry: Entry, split: str) -> str:
    ours, theirs = entry.record.score(split, contest.metric), contest.published(entry, split)
    apart = numbers.difference(ours, theirs) if ours is not None and theirs is not None else numbers.MISSING
    return number_cell(numbers.score(ours), ours) + number_cell(numbers.score(theirs), theirs) + number_cell(apart)


def figures(contest: RunGroup, prefix: str, several: bool) -> str:
    """The plots under one legend, or how to get them."""
    heading = f"Learning: {contest.place}" if several else "Learning"
    try:
        plots = curves.plots(contest, prefix)
    except MissingExtra as missing:
        return section(heading, f'<p class="missing">No curves here: {escape(str(missing))}</p>')
    if not plots:
        return ""
    drawn = "".join(f"<figure><figcaption>{escape(plot.title)}</figcaption>{plot.svg}</figure>" for plot in plots)
    names = "".join(f"<li>{badge(entry)} {escape(entry.name)}</li>" for entry in contest.entries)
    legend = f'<ul class="legend">{names}</ul>' if len(contest.entries) > 1 else ""
    notes = [
        "A ring on a curve marks the epoch whose checkpoint counts.",
        "The train curve is taken while the model learns; train in the table is measured afterwards.",
    ]
    if curves.share_plots(contest):
        notes.append("Solid is valid, dashed is train.")
    if any(contest.published(entry) is not None for entry in contest.entries) and len(contest.ranked) > 1:
        notes.append("A ring tied to a point is the published number.")
    return section(heading, f'{legend}<div class="figures">{drawn}</div><p class="aside">{" ".join(notes)}</p>')


def costs(contests: Iterable[RunGroup]) -> str:
    """Every formula with the number it comes to, term by term."""
    counted = [
        (entry, contest.unit, entry.record.metrics)
        for contest in contests
        for entry in contest.entries
        if entry.record.metrics and entry.record.metrics.cost
    ]
    if not counted:
        return ""
    used = {letter for *_, metrics in counted for cost in metrics.cost.values() for letter in letters(cost.formula)}
    meanings = ", ".join(f"<i>{letter}</i> {meaning}" for letter, meaning in ALPHABET.items() if letter in used)
    key = f'<p class="aside">{meanings}. FLOPs count matrix products, two for a multiply-add.</p>' if meanings else ""
    folds = [
        fold(
            entry,
            "".join(_cost(kind, cost, unit) for kind, cost in metrics.cost.items()) + _measured(metrics, unit),
            opened=len(counted) == 1,
            aside=_costs_in_brief(metrics, unit),
        )
        for entry, unit, metrics in counted
    ]
    return section("What it costs", key + "".join(folds))


def _costs_in_brief(metrics: Metrics, unit: str) -> str:
    brief = f"{numbers.count(metrics.parameters)} parameters, {numbers.amount(metrics.flops, 'FLOP')} per {unit}"
    seconds = metrics.seconds_per_unit
    return f"{brief}, {numbers.brief(seconds)} measured" if seconds else brief


def _measured(metrics: Metrics, unit: str) -> str:
    """The time that training took, beside what it had to compute."""
    if metrics.seconds_per_unit is None or metrics.training_flops is None:
        return ""
    return (
        f'<p class="aside">Measured in training: {numbers.brief(metrics.seconds_per_unit)} per {unit} for both passes '
        f"and the update, {numbers.amount(metrics.flops_per_second, 'FLOP/s')} of the "
        f"{numbers.amount(metrics.training_flops, 'FLOP')} that the formulas give.</p>"
    )


def _cost(kind: str, cost: CostRecord, unit: str) -> str:
    title = COST_TITLES.get(kind, kind.replace("_", " ").capitalize()).format(unit=unit)
    head = f"<th>{escape(title)}</th><th>formula</th><th class=number>number</th><th class=number>share</th>"
    rows = [
        f'<th scope="row">{escape(name)}</th><td>{mathml(term.formula)}</td>'
        + number_cell(numbers.count(term.value), term.value)
        + number_cell(numbers.percent(term.value / cost.value) if term.value is not None and cost.value else "")
        for name, term in cost.terms.items()
    ]
    total = f'<th scope="row">in all</th><td>{mathml(cost.formula)}{escape(cost.remark)}</td>' + number_cell(
        numbers.count(cost.value), cost.value
    )
    return scrolled(head, rows, title, f"{total}<td></td>")


def samples(entries: Iterable[Entry]) -> str:
    """What the models answered."""
    answered = [
        (entry, entry.record.metrics.samples)
        for entry in entries
        if entry.record.metrics and entry.record.metrics.samples
    ]
    parts = []
    for entry, answers in answered:
        quotes = [
            f'<blockquote><p class="prompt">{escape(answer.prompt)}</p><p>{escape(answer.output)}</p>'
            f"{_asides(answer.notes)}</blockquote>"
            for answer in answers
        ]
        parts.append(fold(entry, "".join(quotes), opened=len(answered) <= curves.CROWD))
    return section("Samples", "".join(parts)) if parts else ""


def recipes(entries: Sequence[Entry]) -> str:
    """What differs between the runs, then every field of each."""
    settings = {entry.number: _settings(entry.record) for entry in entries}
    names = list(dict.fromkeys(name for fields in settings.values() for name in fields))
    values = {name: [settings[entry.number].get(name, numbers.MISSING) for entry in entries] for name in names}
    varied = [name for name in names if len(set(values[name])) > 1]
    parts = []
    # The names stand before every row anyway, and a sha256 is of no use to people.
    telling = [name for name in varied if name not in ("recipe", "name", "fingerprint")]
    if telling:
        head = "<th>model</th>" + "".join(f"<th>{escape(name)}</th>" for name in telling)
        rows = [
            name_cell(entry) + "".join(f"<td>{escape(values[name][row])}</td>" for name in telling)
            for row, entry in enumerate(entries)
        ]
        parts.append(scrolled(head, rows, "what differs"))
    head = "<th>field</th>" + "".join(f"<th>{badge(entry)} {escape(entry.name)}</th>" for entry in entries)
    rows = []
    for name in names:
        texts = [f"<mark>{escape(value)}</mark>" if name in varied else escape(value) for value in values[name]]
        rows.append(f'<th scope="row">{escape(name)}</th>' + "".join(f"<td>{text}</td>" for text in texts))
    label = "Every field, differences marked" if varied else "Every field"
    opened = "" if len(entries) > 1 else " open"
    parts.append(f"<details{opened}><summary>{label}</summary>{scrolled(head, rows, label)}</details>")
    return section("Recipes" if len(entries) > 1 else "Recipe", "".join(parts))


def _settings(record: RunRecord) -> dict[str, str]:
    facts = record.facts
    around = {
        "task": facts.task,
        "recipe": facts.recipe,
        "seed": facts.seed,
        "data": facts.source or "embedded",
        "device": facts.device,
        "precision": facts.precision,
        "threads": facts.threads,
        "fingerprint": facts.fingerprint,
    }
    return {name: plain(value) for name, value in (around | record.fields).items() if value not in (None, "")}


def histories(entries: Iterable[Entry]) -> str:
    """How each run went, on what machine, and the command that repeats it."""
    parts = []
    for entry in entries:
        record, metrics = entry.record, entry.record.metrics
        command = (metrics.command if metrics else None) or record.command
        parts += [f"<article><h3>{badge(entry)} {escape(entry.name)}</h3><p>{escape(_story(record))}</p>"]
        parts += [_asides(record.notes), f"<pre><code>{escape(command)}</code></pre>" if command else ""]
        parts += [facts(metrics.hardware | metrics.versions) if metrics else "", "</article>"]
    return section("How to repeat it", "".join(parts))


def _story(record: RunRecord) -> str:
    metrics = record.metrics
    epochs = metrics.epochs if metrics and metrics.epochs is not None else record.epoch
    best = metrics.best_epoch if metrics else record.best.epoch if record.best else None
    parts = [f"{epochs} {'epoch' if epochs == 1 else 'epochs'}"]
    if best is not None and epochs > 1:
        parts[0] += f", number {best} the best"
    if record.started is not None:
        started = datetime.fromtimestamp(record.started, UTC)
        parts.append(f"started {started.day} {started:%B %Y, %H:%M} UTC")
    if record.resumes:
        parts.append("resumed once" if record.resumes == 1 else f"resumed {record.resumes} times")
    if record.reason:
        parts.append(f"stopped: {record.reason}")
    if not record.finished:
        parts.append("interrupted, not finished" if record.interrupted else "not finished")
    return f"{'; '.join(parts)}."


def made_by(command: str) -> str:
    return f"<footer><p>This page was made by</p><pre><code>{escape(command)}</code></pre></footer>"


def _asides(notes: Iterable[str]) -> str:
    return "".join(f'<p class="aside">{escape(note)}</p>' for note in notes)

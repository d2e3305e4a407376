"""The rooms as pages: the state that an address gives, a first headline, and the data that the scripts begin with.

The scripts compute their headlines from the state and replace these, which a reader without scripts sees.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from porism.report import numbers
from porism.version import __version__
from porism.web.addresses import chosen, cost_address, split_names, whole
from porism.web.catalogue import KINDS, Catalogue
from porism.web.predictions import ATTENDING
from porism.web.run_details import run_details
from porism.web.runs import ListedRun, RunTable
from porism.web.values import Value, sizes_of, value_at

TRAIN = "porism train language elman"
COMPARE = "porism compare language elman lstm"
METHODS = ("softmax", "sliding", "block", "taylor", "hybrid")
AXES = ("epochs", "seconds", "tokens", "flops")
MOST_LETTERS = 400


@dataclass
class Room:
    """What a template is given: `context`."""

    name: str
    title: str
    headline: str
    summary: str
    data: dict[str, Any]
    left_out: Sequence[str] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    def context(self, static: str) -> dict[str, Any]:
        data = {**self.data, "left_out": list(self.left_out)}
        return {
            "room": self.name,
            "title": self.title,
            "headline": self.headline,
            "summary": self.summary,
            "static": static,
            "version": __version__,
            "left_out": list(self.left_out),
            "data": data,
            "saved": None,
            **self.extra,
        }


class CostRoom(Room):
    """Formulas of the picked targets, and their numbers at the sizes of the address."""

    def __init__(
        self, state: dict[str, Any], left_out: Sequence[str], catalogue: Catalogue, allowed: Sequence[str]
    ) -> None:
        costs = [catalogue.costs[name] for name in state["of"] if name in catalogue.costs]
        given = {letter: int(size) for letter, size in state["at"].items()}
        values = [value_at(cost, state["show"], given) for cost in costs]
        names = [cost["target"] for cost in costs]
        sizes: dict[str, int] = {}
        for cost in costs:
            sizes = {**sizes_of(cost, given), **sizes}
        data = {
            "costs": [_brief(cost) for cost in costs],
            "targets": list(catalogue.costs),
            "allowed": list(allowed),
            "letters": catalogue.letters,
            "state": state,
        }
        super().__init__(
            "cost",
            f"Cost of {', '.join(state['of'])}",
            _cost_headline(names, values, state["show"]),
            _cost_summary(names, values, sizes, state["show"]),
            data,
            left_out,
            {"rows": _cost_rows(costs, values, state["show"])},
        )


def _brief(cost: Mapping[str, Any]) -> dict[str, Any]:
    """A cost without what the page makes of its trees by itself."""
    kinds = {kind: {key: cost[kind][key] for key in ("tree", "label", "why", "least", "doubt")} for kind in KINDS}
    return {key: cost[key] for key in ("target", "letters", "held_out", "uncounted", "conventions")} | kinds


def cost_room(query: Mapping[str, str], catalogue: Catalogue, allowed: Sequence[str]) -> Room:
    address = cost_address(query, catalogue, allowed)
    return CostRoom(address.state, address.left_out, catalogue, allowed)


def _cost_headline(names: Sequence[str], values: Sequence[Value], kind: str) -> str:
    known = sorted((value.number, name) for name, value in zip(names, values, strict=True) if value.number is not None)
    if not known:
        return f"The {KINDS[kind]} of {' and '.join(names) or 'nothing yet'}"
    least, name = known[0]
    if len(names) == 1:
        return f"{name} takes {least:,} {KINDS[kind]}"
    return f"{name} takes the fewest {KINDS[kind]} here: {least:,}"


def _cost_summary(names: Sequence[str], values: Sequence[Value], sizes: Mapping[str, int], kind: str) -> str:
    parts = [f"{value.text} with {name}" for name, value in zip(names, values, strict=True)]
    at = ", ".join(f"{letter} = {size:,}" for letter, size in sizes.items())
    return f"At {at}: {'; '.join(parts)} ({KINDS[kind]})." if parts else ""


def _cost_rows(costs: Sequence[Mapping[str, Any]], values: Sequence[Value], kind: str) -> list[dict[str, Any]]:
    least = min((value.number for value in values if value.number), default=None)
    return [
        {
            "target": cost["target"],
            "value": value.text,
            "times": f"{value.number / least:.2f}" if value.number and least else "",
            "mathml": Markup(cost[kind]["mathml"]),
            "known": value.label,
            "why": value.why,
        }
        for cost, value in zip(costs, values, strict=True)
    ]


def patterns_room(query: Mapping[str, str], runs: RunTable) -> Room:
    """Whose attention can be shown, and what of."""
    left_out: list[str] = []
    shown = [listed.row for listed in runs.listed().values() if attends(listed)]
    names = [row["id"] for row in shown]
    state = {
        "text": query.get("text", "")[:MOST_LETTERS],
        "run": chosen(query, "run", names, "", left_out),
        "layer": whole(query, "layer", 1, 99, left_out),
        "head": whole(query, "head", 1, 99, left_out),
        "method": chosen(query, "method", METHODS, "taylor", left_out),
        "K": whole(query, "K", 2, 12, left_out),
        "W": whole(query, "W", 4, 64, left_out),
    }
    of = state["run"] or "seeded random queries and keys"
    headline = "Who attends to whom, and how far the cheap method is off"
    summary = f"Softmax, a window and a series on your sentence, with {of}."
    return Room("patterns", "Patterns of attention", headline, summary, {"runs": shown, "state": state}, left_out)


def attends(listed: ListedRun) -> bool:
    """Whether a run is a language model with attention, and has a checkpoint."""
    record = listed.record
    return (
        record is not None
        and record.facts.task == "language"
        and record.fields.get("model") in ATTENDING
        and record.best is not None
    )


def models_room(query: Mapping[str, str], runs: RunTable, catalogue: Catalogue) -> Room:
    """All runs, and one of them: that of the address, else the newest."""
    left_out: list[str] = []
    listed = runs.listed()
    requested = query.get("run", "")
    if requested and requested not in listed:
        left_out.append(f"There is no run {requested[:100]!r} in {runs.folder.name}.")
        requested = ""
    name = requested or next((name for name, run in listed.items() if run.record is not None), "")
    run = listed.get(name)
    details = run_details(run, run.record, catalogue) if run is not None and run.record is not None else None
    headline, summary = _models_headline(run, len(listed), runs.folder.name)
    rows = [run.row for run in listed.values()]
    data = {"runs": rows, "run": details, "folder": runs.folder.name, "command": TRAIN, "state": {"run": name}}
    title = name or "Models"
    return Room("models", title, headline, summary, data, left_out, {"runs": rows, "run": details, "command": TRAIN})


def _models_headline(run: ListedRun | None, count: int, folder: str) -> tuple[str, str]:
    if run is None:
        return f"No run in {folder} yet", f"Train a first model with: {TRAIN}. It appears here by itself."
    row = run.row
    if run.record is None:
        return f"{row['id']} is damaged", row["message"]
    summary = f"{count} runs in {folder}." if count > 1 else f"The one run in {folder}."
    if row["value"] is None:
        return f"{row['recipe']}: {row['state']}, no epoch is done yet", summary
    metric = f"{row['split']} {numbers.metric_name(row['metric'])} {numbers.score(row['value'])}"
    return f"{row['recipe']}: {metric} after {row['epoch']} of {row['epochs']} epochs", summary


def compare_room(query: Mapping[str, str], text: str, runs: RunTable) -> Room:
    """Runs side by side: those of the address, else the two newest that can be compared."""
    from porism.web.comparison import compare  # numpy comes with it, which the first page need not wait for

    listed = runs.listed()
    requested = split_names(text, "runs", listed)
    left_out = [f"There is no run {name[:100]!r} in {runs.folder.name}." for name in requested if name not in listed]
    usable = {name: run.record for name, run in listed.items() if run.record is not None and run.record.epochs}
    left_out += [
        f"{name[:100]!r} is left out, it is damaged: {run.row['message']}"
        for name, run in listed.items()
        if name in requested and run.record is None
    ]
    picked = {name: usable[name] for name in dict.fromkeys(requested) if name in usable}
    picked = picked if requested else _first_two(usable)
    found = compare(picked, query.get("metric", "")) if len(picked) > 1 else None
    rows = [run.row for run in listed.values()]
    axis = chosen(query, "x", AXES, "epochs", left_out)
    state = {"runs": list(picked), "metric": query.get("metric", "")[:100], "x": axis}
    data = {"runs": rows, "comparison": found, "folder": runs.folder.name, "command": COMPARE, "state": state}
    headline, summary = "Pick two runs to compare", "Runs of one task and one data set can be compared."
    if found:
        headline, summary = found["headline"], found["summary"]
    elif len(usable) < 2:
        headline = "There are not two runs to compare yet"
        summary = f"Train two with: {COMPARE}. They appear here by themselves."
    title = f"{len(picked)} runs compared" if found else "Compare"
    extra = {"runs": rows, "comparison": found, "command": COMPARE}
    return Room("compare", title, headline, summary, data, left_out, extra)


def _first_two(usable: Mapping[str, Any]) -> dict[str, Any]:
    """The newest run and the next one of its task and data."""
    for name, record in usable.items():
        facts = record.facts
        for other, second in usable.items():
            if other != name and (second.facts.task, second.facts.fingerprint) == (facts.task, facts.fingerprint):
                return {name: record, other: second}
    return {}


def ledger_room(query: Mapping[str, str], catalogue: Catalogue) -> Room:
    """The statements of the ledger, filtered as the address says."""
    left_out: list[str] = []
    ids = [claim["id"] for claim in catalogue.claims]
    state = {
        "verdict": chosen(query, "verdict", catalogue.verdicts, "", left_out),
        "topic": chosen(query, "topic", list(catalogue.topics), "", left_out),
        "q": query.get("q", "")[:100],
        "open": chosen(query, "open", ids, "", left_out),
    }
    shown = [claim for claim in catalogue.claims if _matches(claim, state)]
    count = {verdict: sum(claim["verdict"] == verdict for claim in catalogue.claims) for verdict in catalogue.verdicts}
    headline = f"{count['wrong']} of {len(catalogue.claims)} textbook statements are wrong"
    summary = f"{count['imprecise']} more are imprecise. Open one and press Check: it is decided here."
    data = {
        "claims": catalogue.claims,
        "topics": catalogue.topics,
        "verdicts": [{"verdict": verdict, "count": number} for verdict, number in count.items()],
        "state": state,
    }
    return Room("ledger", headline, headline, summary, data, left_out, {"claims": shown})


def _matches(claim: Mapping[str, Any], state: Mapping[str, str]) -> bool:
    text = f"{claim['id']} {claim['statement']} {claim['right']}".lower()
    return (
        state["verdict"] in ("", claim["verdict"])
        and state["topic"] in ("", claim["topic"])
        and state["q"].lower() in text
    )

"""The page holds everything, brings nothing in from outside, and trusts no text."""

import os
import re
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.report.conftest import WriteRun, metrics

from porism.errors import RunError
from porism.report.page import write_report

HOSTILE = "<script>alert('x')</script><img src=http://example.org/x onerror=alert(1)>\"'&"
VOID = {"meta", "br", "img", "link", "hr", "input"}
"""For tests of words alone: plots take longer than the rest of a page."""


class Outline(HTMLParser):
    """The tags, attributes, ids and text of a page, and a complaint where tags do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.words = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.words += data


def report(to: Path, *folders: Path, title: str | None = None, command: str | None = None) -> tuple[str, Outline]:
    text = write_report(folders, to / "report.html", title, command).read_text(encoding="utf-8")
    return text, Outline(text)


def assert_self_contained(text: str, outline: Outline) -> None:
    loading = [
        (name, value) for name, value in outline.attributes if name in ("src", "href", "action", "data", "srcset")
    ]
    assert all(name == "href" and value.startswith("#") for name, value in loading), loading
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(outline.tags)
    assert not [name for name, _ in outline.attributes if name.startswith("on")]
    style = text[text.index("<style>") : text.index("</style>")]
    assert "@import" not in style
    assert "url(" not in style


def test_the_page_says_it_all(write_run: WriteRun, tmp_path: Path) -> None:
    text, outline = report(tmp_path, write_run(metrics=metrics()), command="porism report run")
    assert outline.open == []
    assert "<h1>Language: table-02</h1>" in text
    for words in (
        "table-02 reaches a test perplexity of 154.9",
        "1,525,100",
        "30.0 kFLOP",
        "in palo alto calif.",
        "alto was read as <unk>",
        "a processor",
        "2.13",
        "porism train language table-02 --device cpu --seed 1",
        "porism report run",
        "D width, H hidden width",
        "started 25 February 2026, 06:13 UTC",
    ):
        assert words in outline.words, words
    assert '<data value="154.92">154.9</data>' in text
    assert "<math>" in text
    assert_self_contained(text, outline)


def test_no_text_becomes_markup(write_run: WriteRun, tmp_path: Path) -> None:
    hostile = metrics(
        metric=HOSTILE,
        metrics={HOSTILE: {HOSTILE: 1.0}, "test": {HOSTILE: 1.0}},
        published={HOSTILE: {HOSTILE: 2.0}, "test": {HOSTILE: 2.0}},
        samples=[{"prompt": HOSTILE, "output": HOSTILE, "notes": [HOSTILE]}],
        hardware={HOSTILE: HOSTILE},
        versions={HOSTILE: HOSTILE},
        cost={HOSTILE: {"formula": HOSTILE, "value": 1, "terms": {HOSTILE: {"formula": HOSTILE, "value": 1}}}},
        command=HOSTILE,
    )
    folders = [
        write_run(name, metrics=hostile, recipe=HOSTILE, task=HOSTILE, source=HOSTILE, field=[HOSTILE, name])
        for name in "ab"
    ]
    hostile_events = [{"event": "note", "text": HOSTILE}, {"event": "finish", "reason": HOSTILE}]
    folders.append(write_run("c", events=hostile_events, task=HOSTILE, recipe=HOSTILE, source="other"))
    text, outline = report(tmp_path, *folders, title=HOSTILE, command=HOSTILE)
    assert outline.open == []
    assert "<script" not in text
    assert "<img" not in text
    assert outline.words.count("<script>alert('x')</script>") > 20
    assert_self_contained(text, outline)


def test_differences_between_recipes_are_marked(write_run: WriteRun, tmp_path: Path) -> None:
    folders = write_run("a", hidden=100), write_run("b", recipe="table-03", hidden=200)
    text, _ = report(tmp_path, *folders)
    assert "<mark>100</mark>" in text
    assert "<mark>200</mark>" in text
    assert "<mark>elman</mark>" not in text
    assert '<th scope="row">model</th><td>elman</td><td>elman</td>' in text


def test_the_precision_that_ran_is_shown_and_not_the_auto_that_chose_it(write_run: WriteRun, tmp_path: Path) -> None:
    text, _ = report(tmp_path, write_run("a", precision="auto"))
    assert '<th scope="row">precision</th><td>fp32</td>' in text


def test_fields_that_a_model_has_no_use_for_are_not_shown(write_run: WriteRun, tmp_path: Path) -> None:
    folders = [
        write_run(name, recipe=name, model=model, window_size=window, num_heads=heads)
        for name, model, window, heads in (("a", "attention", 32, 4), ("b", "window", 16, 4), ("c", "hybrid", 16, 2))
    ]
    text, _ = report(tmp_path, *folders)
    assert '<th scope="row">window_size</th><td>–</td><td>16</td><td>16</td>' in text
    differing = text[text.index("what differs") : text.index("Every field")]
    # The name of a run stands in the first column, the field in the one that has its name.
    assert re.findall(r"<th>(.*?)</th>", differing) == ["run", "model", "num_heads"]
    other, _ = report(tmp_path, *folders, write_run("d", recipe="d", model="window", window_size=8, num_heads=4))
    assert "<td><mark>16</mark></td>" in other[other.index('<th scope="row">window_size</th>') :]


def test_published_splits_and_metrics_stand_beside_the_measured(write_run: WriteRun, tmp_path: Path) -> None:
    known = {"train": {"perplexity": 121.88}, "test": {"perplexity": 159.64, "cross_entropy": 5.25}}
    best = {"test": {"cross_entropy": 1.25}}
    text, _ = report(tmp_path, write_run(metrics=metrics(published=known, limit=best)))
    assert "Measured beside published" in text
    assert '<data value="121.88">121.9</data>' in text
    assert '<data value="5.25">5.250</data>' in text
    assert "Every metric on test" in text
    assert '<data value="1.25">1.250</data>' in text
    assert "Measured beside published" not in report(tmp_path, write_run("b", metrics=metrics()))[0]


def test_metrics_are_written_as_people_write_them(write_run: WriteRun, tmp_path: Path) -> None:
    scores = {split: {"perplexity": 150.0, "macro_f1": 0.5} for split in ("valid", "test")}
    text, _ = report(tmp_path, write_run(metrics=metrics(metrics=scores, published={"test": {"macro_f1": 0.6}})))
    assert '<th scope="row">macro F1</th>' in text
    assert "<td>macro F1</td>" in text
    assert "macro f1" not in text


def test_an_unfinished_run_is_labelled_and_drawn(write_run: WriteRun, tmp_path: Path) -> None:
    text, outline = report(tmp_path, write_run())
    assert '<span class="state">unfinished</span>' in text
    assert "not finished" in outline.words
    assert "<svg" in text


def test_a_run_that_has_only_a_recipe_has_a_page(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run()
    (folder / "events.jsonl").unlink()
    _, outline = report(tmp_path, folder)
    assert "No run has come to a final number yet" in outline.words


def test_plots_need_no_package(write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    text, outline = report(tmp_path, write_run(metrics=metrics()))
    assert text.count("<svg") == 3
    assert "154.9" in outline.words


def test_tasks_that_cannot_be_compared_are_kept_apart(write_run: WriteRun, tmp_path: Path) -> None:
    folders = write_run("a", metrics=metrics(150.0)), write_run("b", source="manual", metrics=metrics(20.0))
    _, outline = report(tmp_path, *folders)
    assert "Language on ptb. " in outline.words
    assert "Language on manual. " in outline.words
    assert "is best of" not in outline.words


def test_no_id_is_used_twice(write_run: WriteRun, tmp_path: Path) -> None:
    _, outline = report(tmp_path, *(write_run(name, source=name, metrics=metrics()) for name in "ab"))
    ids = [value for name, value in outline.attributes if name == "id"]
    assert len(ids) == len(set(ids)) > 0


def test_the_same_runs_give_the_same_bytes(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run(metrics=metrics())
    first, second = report(tmp_path, folder)[0], report(tmp_path, folder)[0]
    assert first == second


def test_a_run_named_twice_is_shown_once(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run(metrics=metrics())
    assert "<h1>Language: table-02</h1>" in report(tmp_path, folder, folder)[0]


def test_every_colour_of_a_series_is_in_the_style_sheet_for_light_and_dark(write_run: WriteRun, tmp_path: Path) -> None:
    text, _ = report(tmp_path, write_run())
    assert all(re.search(rf"--series-{n}: light-dark\(#\w{{6}}, #\w{{6}}\);", text) for n in range(1, 13))


def test_the_folder_is_made_and_nothing_else_left_in_it(write_run: WriteRun, tmp_path: Path) -> None:
    folder = write_run()
    write_report([folder], tmp_path / "new" / "deep" / "page.html")
    assert [path.name for path in (tmp_path / "new" / "deep").iterdir()] == ["page.html"]


def test_a_failed_write_leaves_the_old_report(
    write_run: WriteRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, to = write_run(), tmp_path / "report.html"
    before = write_report([run], to).read_text(encoding="utf-8")

    def refuse(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(
        RunError, match=r"the report cannot be written to .*report\.html: No space left on device\. Choose"
    ):
        write_report([run], to, title="another")
    assert to.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("mine", ["my notes", "<!doctype html>\n<html lang='en'>\n<title>mine</title>"])
def test_a_page_of_others_is_not_written_over(write_run: WriteRun, tmp_path: Path, mine: str) -> None:
    run, to = write_run(), tmp_path / "report.html"
    to.write_text(mine, encoding="utf-8")
    with pytest.raises(RunError, match=r"report\.html is not a report that porism wrote\. Move it, or choose another"):
        write_report([run], to)
    assert to.read_text(encoding="utf-8") == mine


def test_no_runs() -> None:
    with pytest.raises(RunError, match="no run to report on; expected at least one folder"):
        write_report([], Path("report.html"))


def test_a_folder_is_no_place_for_a_page(write_run: WriteRun, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"is a folder; expected a file to write the report to\. Choose .*report\.html"):
        write_report([write_run()], tmp_path)


def test_what_all_runs_share_is_told_once_at_the_top(write_run: WriteRun, tmp_path: Path) -> None:
    runs = [
        write_run(
            f"run-{seed}", metrics=metrics(facts={"split": "public, 140 to learn from", "steps": seed}), seed=seed
        )
        for seed in (1, 2)
    ]
    head = write_report(runs, tmp_path / "report.html").read_text(encoding="utf-8").partition("</header>")[0]
    assert head.count("public, 140 to learn from") == 1
    assert "steps" not in head

"""Every loader on damaged files: a task whose batches are finite numbers, or one line that says what is wrong."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from tests.fuzz.cases import Fuzz, attempt, check_both
from tests.fuzz.forms import FORMS, Form, packed
from tests.fuzz.mutations import CHANGES, Change, Tree, changed, write_tree
from tests.tasks.graphs.data.test_mutated import npy_bytes, npz_bytes, with_other_array, with_other_bytes

from porism.errors import PorismError
from porism.tasks import find
from porism.training.task import Task

SHARE: dict[str, int] = {"images": 60, "graphs": 80, "speech": 30}
WHOLE: dict[str, int] = {"language": 2500, "words": 1500, "images": 2500, "graphs": 3500, "speech": 1500}


class Damage(NamedTuple):
    """What is done to a form: changes of its files, or of the arrays of its .npz, drawn from a seed."""

    form: str
    changes: list[Change]
    arrays: int


def damaged(form: Form, damage: Damage) -> Tree:
    if form.arrays is None:
        return changed(form.files, damage.changes)
    draw = np.random.default_rng(damage.arrays)
    names = list(form.arrays)
    one, other = draw.choice(names, 2, replace=False)
    members = {name: npy_bytes(array) for name, array in form.arrays.items()}
    match int(draw.integers(6)):
        case 0 | 1:
            members[one] = npy_bytes(with_other_array(form.arrays[one], draw))
        case 2:
            members[one], members[other] = members[other], members[one]
        case 3:
            del members[one]
        case 4:
            members[one] = with_other_bytes(members[one], draw)
        case _:
            return changed({form.source: npz_bytes(members)}, damage.changes)
    return {form.source: npz_bytes(members)}


def used(form: Form, folder: Path) -> Task:
    """The task of a folder, and that its first batch can be computed with."""
    task = find(form.task).load(form.recipe, str(folder / form.source))
    batches = task.batches(1, 1)
    assert len(batches)
    for x in batches[0]:
        assert not x.is_floating_point() or bool(x.isfinite().all())
    assert task.fingerprint()
    return task


@pytest.mark.parametrize("task", FORMS)
def test_damaged_data_is_read_or_refused(task: str, fuzz: Fuzz, tmp_path: Path) -> None:
    forms = FORMS[task]()
    outcomes = []

    def check(damage: Damage) -> None:
        form = forms[damage.form]
        folder = write_tree(tmp_path / "data", damaged(form, damage))
        outcomes.append(isinstance(attempt(lambda: used(form, folder)), PorismError))

    cases = st.builds(Damage, st.sampled_from(sorted(forms)), CHANGES, st.integers(0, 2**32))
    fuzz(cases, check, share=SHARE.get(task, 50), whole=WHOLE.get(task, 2000))
    # Neither all read nor all refused: damages of one kind would find nothing.
    check_both(outcomes)


@pytest.mark.parametrize("task", FORMS)
def test_what_is_damaged_is_good_before(task: str, tmp_path: Path) -> None:
    for name, form in FORMS[task]().items():
        files = form.files if form.arrays is None else {form.source: packed(form.arrays)}
        used(form, write_tree(tmp_path / name, files))

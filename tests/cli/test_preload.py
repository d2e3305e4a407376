"""Torch's library is linked by the side, before torch is imported and only where it will be."""

import subprocess
import sys

import pytest

from porism.cli import preload

LINKED = """
import sys
from porism.cli.preload import begin_linking
linking = begin_linking("train", ["graphs"])
linking.join()
assert "torch" not in sys.modules
with open("/proc/self/maps") as maps:
    print("libtorch_cpu.so" in maps.read())
import torch
assert torch.ones(3).sum() == 3
with open("/proc/self/maps") as maps:
    print(len({line.split()[-1] for line in maps if "libtorch_cpu.so" in line}))
"""

LOADED_LATER = """
import _imp
from porism.cli.preload import begin_linking
linking = begin_linking("train", ["words"])
load, later = _imp.create_dynamic, []
def noted(spec, *rest):
    later.append(spec.name)
    return load(spec, *rest)
_imp.create_dynamic = noted
from porism.cli.parsing import parse
from porism.cli.train import TrainCommand
parse(TrainCommand, "train", ["words"])
print(later)
linking.join()
"""


def has_cuda() -> bool:
    import torch

    return torch.version.cuda is not None


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are named otherwise")
def test_torch_takes_the_library_that_was_linked_before() -> None:
    done = subprocess.run([sys.executable, "-c", LINKED], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(not has_cuda()), "1"]


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are named otherwise")
def test_no_module_in_c_waits_for_the_library_while_a_command_is_parsed() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED_LATER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("verb", "words"), [("train", ["graphs", "--help"]), ("train", ["-h"]), ("runs", []), ("report", ["runs/one"])]
)
def test_what_needs_no_torch_links_nothing(verb: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert preload.begin_linking(verb, words) is None


def test_what_is_loaded_is_not_linked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", sys)
    assert preload.begin_linking("train", ["graphs"]) is None


@pytest.mark.skipif(sys.platform != "linux", reason="libraries are named otherwise")
def test_a_torch_that_cannot_be_linked_is_left_to_its_import(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(preload, "find_spec", lambda _: None)
    linking = preload.begin_linking("train", ["graphs"])
    assert linking is not None
    linking.join()
    assert capfd.readouterr().err == ""

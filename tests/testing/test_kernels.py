"""The check of kernels: right ones pass, a wrong one and one that never runs are found out."""

import dataclasses
from collections.abc import Callable

import pytest
import torch
from tests import needs
from torch import Tensor

from porism.layers import kernels
from porism.layers.attention.window import check as window
from porism.layers.cases import KernelCase
from porism.testing.kernels import WITH_KERNELS, check_kernels

needs.triton()


@pytest.mark.sweep(1)
@pytest.mark.parametrize("name", WITH_KERNELS)
def test_every_kernel_is_right(name: str) -> None:
    checks = check_kernels([name])
    assert {one.verdict for one in checks} == {"pass"}, checks
    assert {one.name.split(".")[-1] for one in checks} > {"answer"}


def test_layers_are_left_as_they_were() -> None:
    check_kernels(["gcn"])
    assert {"cuda"} == kernels.DEVICES


def altered(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Tensor]) -> list[str]:
    """Names of what fails when a case has another function."""
    first = next(iter(window.kernel_cases(0)))
    monkeypatch.setattr(window, "kernel_cases", lambda seed: [dataclasses.replace(first, function=function)])
    return [one.name for one in check_kernels(["window"]) if one.verdict == "fail"]


def test_a_wrong_answer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right: KernelCase = next(iter(window.kernel_cases(0)))
    assert "window.sliding.answer" in altered(monkeypatch, lambda q, k, v: right.function(q, k, 1.001 * v))


def test_a_kernel_that_is_never_launched_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right: KernelCase = next(iter(window.kernel_cases(0)))
    assert altered(monkeypatch, right.oracle) == ["window.sliding.launched"]


@pytest.mark.sweep(0)
def test_without_an_interpreter_another_process_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    if torch.cuda.is_available():
        pytest.skip("the GPU runs kernels itself")
    monkeypatch.delenv("TRITON_INTERPRET")
    assert {one.verdict for one in check_kernels(["gcn"])} == {"pass"}
    monkeypatch.setattr("sys.executable", "false")
    with pytest.raises(Exception, match="did not run in Triton's interpreter"):
        check_kernels(["gcn"])

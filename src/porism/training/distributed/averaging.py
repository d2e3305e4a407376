"""A training step of a task's own, taken by each process on its part of the batch; parameters are merged after it.

Local SGD: the interval between two merges is a batch. Each parameter changes by the mean of its changes on all
processes, times what the task says (`MergedStep.scales`). Unlike with summed gradients, N processes do not train as one
does; what that costs is measured for each task that takes part.
"""

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from porism.errors import DivergedError
from porism.training.distributed.processes import Processes
from porism.training.distributed.step import DataParallelStep
from porism.training.task import Batch, Carry, MergedStep, Task


class AveragedStep:
    """One process's part of a step. The batch is the whole one.

    own: the task's own step, which changes the model in place.
    """

    dim = 0

    def __init__(
        self, task: Task, model: nn.Module, own: MergedStep, optimizer: Optimizer, processes: Processes
    ) -> None:
        self.task, self.model, self.own, self.optimizer, self.processes = task, model, own, optimizer, processes

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        device = next(self.model.parameters()).device
        part = tuple(x.to(device) for x in self.task.part(batch, self.processes.rank, self.processes.size))
        before = [p.detach().clone(memory_format=torch.contiguous_format) for p in self.model.parameters()]
        weight, diverged = self.task.loss_weight(part), None
        sums = torch.zeros(2, dtype=torch.float64)
        try:
            loss, carry = self.own(part, carry)
            sums[0], sums[1] = float(loss) * weight, weight
        except DivergedError as error:
            diverged = error
        texts = self.processes.gather("" if diverged is None else str(diverged))
        if any(texts):
            if not self.processes.rank:
                raise diverged or DivergedError(_first(texts))
            # Rank 0 says what comes next.
            return sums[0], carry
        self._merge(before, batch)
        self.processes.sum(sums)
        return sums[0] / sums[1].clamp(min=1), carry

    @torch.no_grad()
    def _merge(self, before: list[Tensor], batch: Batch) -> None:
        scales = self.own.scales(batch, self.processes.size)
        for p, start, scale in zip(self.model.parameters(), before, scales, strict=True):
            change = p - start
            self.processes.sum(change)
            p.copy_(start + change * (scale / self.processes.size))


def _first(texts: list[str]) -> str:
    return next(f"process {rank} of {len(texts)}: {text}" for rank, text in enumerate(texts) if text)


def shared_step(
    task: Task, model: nn.Module, optimizer: Optimizer, device: torch.device, precision: str, processes: Processes
) -> DataParallelStep | AveragedStep:
    """One process's part of a step: the task's own, merged, where it has one, or one with summed gradients."""
    own = task.step(model)
    if isinstance(own, MergedStep):
        return AveragedStep(task, model, own, optimizer, processes)
    return DataParallelStep(task, model, optimizer, device, precision, processes)

"""A data-parallel training step: each process takes its part of the batch, and gradients are summed over all of them.

The loss of a batch is the sum of what its parts add to it (`Task.loss_part`), so that unequal parts weigh as much as
they hold, and N processes train as one does.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from porism.errors import DeviceError, PorismError, RecipeError, RunError
from porism.training.distributed.norms import synchronize
from porism.training.distributed.processes import Processes, current
from porism.training.step import EagerStep
from porism.training.task import Batch, Carry, MergedStep, Task
from porism.training.task import part_of as rows_of


def part_of(x: Tensor, dim: int, processes: Processes) -> Tensor:
    """The rows of a tensor that belong to one process."""
    return rows_of(x, dim, processes.rank, processes.size)


class DataParallelStep(EagerStep):
    """One process's part of a step. The batch is the whole one, the carry that of the part.

    Not DistributedDataParallel: its hooks see only calls of `forward`, and a task's loss calls what it likes; a
    parameter without a gradient on one process would make the others wait.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        optimizer: Optimizer,
        device: torch.device,
        precision: str,
        processes: Processes,
    ) -> None:
        super().__init__(task, model, optimizer, device, precision)
        self.processes, self.dim = processes, task.example_dim()
        self.norms = synchronize(model, processes)
        self.trained = [p for p in model.parameters() if p.requires_grad]

    def _gradients(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        self.optimizer.zero_grad(set_to_none=True)
        own = self.task.part(batch, self.processes.rank, self.processes.size)
        part = tuple(x.to(self.device, non_blocking=True) for x in own)
        repeated = batch[0].shape[self.dim] < self.processes.size
        for norm in self.norms:
            norm.alone = repeated
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half, cache_enabled=False):
            loss, carry = self._loss(part, batch, carry)
        if repeated:
            loss = loss / self.processes.size
        loss.backward()
        return self._summed(loss.detach()), carry

    def _loss(self, part: Batch, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        return self.task.loss_part(self.model, part, batch, carry)

    def _summed(self, loss: Tensor) -> Tensor:
        """The loss and the gradients summed over all processes, in one exchange."""
        known = torch.tensor([p.grad is not None for p in self.trained], device=self.device)
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.trained]
        # N gradients, whether each parameter has one, the loss.
        flat = torch.cat([*(g.reshape(-1) for g in grads), known.to(grads[0].dtype), loss.reshape(1)])
        self.processes.sum(flat)
        *sums, counts, loss = flat.split([*(g.numel() for g in grads), len(grads), 1])
        for p, total, count in zip(self.trained, sums, counts.tolist(), strict=True):
            # An optimizer leaves out what has no gradient; zeros it would still decay.
            p.grad = total.view_as(p).to(p.dtype) if count else None
        return loss.squeeze(0)


def layout(tensors: dict[str, Tensor]) -> list[tuple[str, list[int], str]]:
    """Name, shape and dtype of tensors that follow a message."""
    return [(name, list(x.shape), str(x.dtype).removeprefix("torch.")) for name, x in tensors.items()]


def gather(carry: Carry, dim: int, rows: int, processes: Processes) -> Carry:
    """The carry of a whole batch of so many rows, from the parts of all processes."""
    found = {}
    for name, part in carry.items():
        if rows < processes.size:
            found[name] = part
            continue
        shape = list(part.shape)
        shape[dim] = rows
        whole = part.new_zeros(shape)
        part_of_whole = whole.tensor_split(processes.size, dim)[processes.rank]
        part_of_whole.copy_(part)
        if whole.numel():
            processes.sum(whole)
        found[name] = whole
    return found


def get_ready(processes: Processes, load: Callable[[], None]) -> bool:
    """Load what a process needs, one process a machine before the others, so that only one downloads.

    Returns: whether all could. Rank 0 raises what another could not.
    """
    for first in (True, False):
        problem = ""
        if (processes.launch.local_rank == 0) == first:
            try:
                load()
            except PorismError as error:
                problem = str(error)
        for rank, text in enumerate(processes.gather(problem)):
            if text and not processes.rank:
                raise RunError(f"process {rank} of {processes.size}: {text}")
            if text:
                return False
    return True


def check_shareable(task: Task, device: torch.device) -> None:
    """Refuse, where several processes train together, what they cannot share."""
    processes = current()
    if processes.size == 1:
        return
    if device.type == "cuda":
        if device.index is not None:
            raise DeviceError(f"device {device}: of several processes each takes its own GPU. Use --device cuda.")
        if processes.launch.local_size > torch.cuda.device_count():
            raise DeviceError(
                f"{processes.launch.local_size} processes on this machine, and torch sees {torch.cuda.device_count()} "
                "GPUs. Start at most as many processes, or use --device cpu."
            )
    task.example_dim()
    model = task.new_model()
    own = task.step(model)
    if own is not None and not isinstance(own, MergedStep):
        raise RecipeError(f"{task.name} trains this recipe by a step of its own, in one process. Leave torchrun out.")
    if isinstance(model, _BatchNorm):
        raise RecipeError("the model is a batch norm itself, and trains in one process. Leave torchrun out.")

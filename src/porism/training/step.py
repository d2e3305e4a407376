"""One training step: forward, backward, clip, update. On CUDA the step is captured once for each shape and replayed."""

from collections import Counter

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import Optimizer

from porism.layers.reused_memory import ReusedMemory, reusing
from porism.training.capture import capture
from porism.training.device import fastest_products
from porism.training.task import Batch, Carry, Step, Task

WARM_UP = 3
"""Steps before a capture, in which the libraries choose their algorithms and allocate their workspaces."""
MOST_GRAPHS = 16
"""Each holds what its step keeps for the way back."""

Shapes = tuple[torch.Size, ...]


def make_step(task: Task, model: nn.Module, optimizer: Optimizer, device: torch.device, precision: str) -> Step:
    """The task's own step, or the fastest for the device."""
    own = task.step(model)
    if own is not None:
        return own
    eager = EagerStep(task, model, optimizer, device, precision)
    # What a user's module does between kernels is not known, and a capture would leave it out.
    captured = device.type == "cuda" and task.user_objects.model is None
    return CapturedStep(eager, device) if captured else eager


class EagerStep:
    """The step as it is written."""

    def __init__(
        self, task: Task, model: nn.Module, optimizer: Optimizer, device: torch.device, precision: str
    ) -> None:
        self.task, self.model, self.optimizer, self.device = task, model, optimizer, device
        self.half = precision == "bf16"
        self.memory = ReusedMemory()

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        with fastest_products(self.half):
            loss, carry = self._gradients(batch, carry)
        if self.task.recipe.max_grad_norm is not None:
            clip_grad_norm_(self.model.parameters(), self.task.recipe.max_grad_norm)
        self.optimizer.step()
        return loss.detach(), carry

    def warm_up(self, batch: Batch, carry: Carry) -> None:
        """Compile and allocate what a step needs, and leave no trace: no update, the same buffers and random state."""
        random, buffers = torch.get_rng_state(), {name: x.clone() for name, x in self.model.named_buffers()}
        with fastest_products(self.half):
            self._gradients(batch, carry)
        self.optimizer.zero_grad(set_to_none=True)
        torch.set_rng_state(random)
        with torch.no_grad():
            for name, x in self.model.named_buffers():
                x.copy_(buffers[name])

    def _gradients(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        self.optimizer.zero_grad(set_to_none=True)
        # The cache of cast weights would outlive a capture, and every weight is cast once a step anyway.
        products = torch.autocast(self.device.type, torch.bfloat16, enabled=self.half, cache_enabled=False)
        with products, reusing(self.memory):
            loss, carry = self.task.loss(self.model, batch, carry)
        loss.backward()
        return loss, carry


class CapturedStep:
    """The same step as CUDA graphs: no launch from Python inside them. One graph for each shape that batches have.

    Shapes that come too seldom, or after MOST_GRAPHS others, run as written.
    """

    def __init__(self, eager: EagerStep, device: torch.device) -> None:
        self.eager = eager
        self.stream = torch.cuda.Stream(device)
        self.seen: Counter[Shapes] = Counter()
        self.graphs: dict[Shapes, Captured] = {}

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        shapes = tuple(x.shape for x in batch)
        if shapes not in self.graphs:
            self.seen[shapes] += 1
            if self.seen[shapes] <= WARM_UP or len(self.graphs) == MOST_GRAPHS:
                return self._on_side_stream(batch, carry)
            self.graphs[shapes] = Captured(self.eager, batch, carry)
        return self.graphs[shapes](batch, carry)

    def _on_side_stream(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            result = self.eager(batch, carry)
        torch.cuda.current_stream().wait_stream(self.stream)
        return result


class Captured:
    """One graph, and the tensors it reads and writes."""

    def __init__(self, eager: EagerStep, batch: Batch, carry: Carry) -> None:
        self.batch = tuple(x.clone() for x in batch)
        self.carry = {name: x.clone() for name, x in carry.items()}
        self.graph = torch.cuda.CUDAGraph()
        with capture(self.graph):
            self.loss, after = eager(self.batch, self.carry)
            for name, held in self.carry.items():
                held.copy_(after[name])

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        for held, new in zip(self.batch, batch, strict=True):
            held.copy_(new, non_blocking=True)
        for name, new in carry.items():
            if new is not self.carry[name]:
                self.carry[name].copy_(new)
        self.graph.replay()
        return self.loss, self.carry

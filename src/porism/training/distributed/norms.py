"""Batch norm whose mean and variance are those of the whole batch, over all processes that share it."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules.batchnorm import _BatchNorm

from porism.training.distributed.processes import Processes


class SynchronizedBatchNorm(nn.Module):
    """`nn.BatchNorm1d`, 2d or 3d over the parts of all processes, with the same parameters, buffers and state_dict.

    nn.SyncBatchNorm is the same for GPUs alone. Gradients are those of the sum of the processes' losses.

    Shapes: x (B, C, ...) -> (B, C, ...), C those of the norm.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(self, norm: _BatchNorm, processes: Processes) -> None:
        super().__init__()
        self.momentum, self.eps, self.processes = norm.momentum, norm.eps, processes
        self.alone = False
        """Whether this process has the whole batch."""
        for name, parameter in norm._parameters.items():
            self.register_parameter(name, parameter)
        for name, buffer in norm._buffers.items():
            self.register_buffer(name, buffer)
        self.train(norm.training)

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.alone:
            return self._alone(x)
        # mean = sum x / n, variance = sum (x - mean)^2 / n, n numbers of each channel over all processes
        exact = x.to(torch.promote_types(x.dtype, torch.float32))
        dims, C = [0, *range(2, x.dim())], x.shape[1]
        count = exact.new_full((1,), x.numel() // C)
        sums = self._sum(torch.cat([exact.sum(dims), count]))
        n, shape = sums[-1].detach(), (1, C, *(1,) * (x.dim() - 2))
        mean = sums[:-1] / n
        centered = exact - mean.view(shape)
        variance = self._sum(centered.square().sum(dims)) / n
        self._remember(mean.detach(), variance.detach() * n / (n - 1))
        scale = torch.rsqrt(variance + self.eps)
        if self.weight is not None:
            scale = scale * self.weight
        y = centered * scale.view(shape)
        return (y if self.bias is None else y + self.bias.view(shape)).to(x.dtype)

    def _alone(self, x: Tensor) -> Tensor:
        by_batch = self.training or self.running_mean is None
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        mean, variance = self.running_mean, self.running_var
        return functional.batch_norm(x, mean, variance, self.weight, self.bias, by_batch, self._rate(), self.eps)

    @torch.no_grad()
    def _remember(self, mean: Tensor, variance: Tensor) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        self.num_batches_tracked.add_(1)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), self._rate())
        self.running_var.lerp_(variance.to(self.running_var.dtype), self._rate())

    def _rate(self) -> float:
        """How much a batch weighs in the running mean; without a momentum it is the mean over all batches."""
        if self.momentum is not None:
            return float(self.momentum)
        return 1 / max(1, int(self.num_batches_tracked)) if self.num_batches_tracked is not None else 0.0

    def _sum(self, x: Tensor) -> Tensor:
        total: Tensor = SumOverProcesses.apply(x, self.processes)  # type: ignore[no-untyped-call]
        return total


class SumOverProcesses(torch.autograd.Function):
    """The sum of a tensor over all processes; backward the sum of its gradients, which all of them have a part of."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, processes: Processes) -> Tensor:
        ctx.processes = processes
        total = x.clone()
        processes.sum(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        total = grads[0].contiguous().clone()
        ctx.processes.sum(total)
        return total, None


def synchronize(model: nn.Module, processes: Processes) -> list[SynchronizedBatchNorm]:
    """Let every batch norm inside a model be one over all processes."""
    norms = []
    for parent in list(model.modules()):
        for name, child in parent.named_children():
            if isinstance(child, _BatchNorm):
                child = SynchronizedBatchNorm(child, processes)
                setattr(parent, name, child)
            if isinstance(child, SynchronizedBatchNorm):
                norms.append(child)
    return norms

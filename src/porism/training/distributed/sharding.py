"""A data-parallel step in which each process holds a part of every parameter (FSDP2, `fully_shard`).

Parameters, gradients and the optimizer's memory lie in parts. A layer's parameters are gathered when it is called and
dropped afterwards, and its gradients are summed and handed out in parts.
"""

import copy
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.hooks import RemovableHandle

from porism.errors import RecipeError
from porism.training import optimizer
from porism.training.distributed.processes import Processes, reaching
from porism.training.distributed.step import DataParallelStep
from porism.training.task import Batch, Carry, Task

Loss = tuple[Tensor, Carry]


def check_shards(task: Task) -> None:
    """Refuse a model whose gradients may be there on one process and missing on another: parts would not fit."""
    if not task.trains_in_shards:
        raise RecipeError(f"{task.name} does not train in shards. Leave --shard out.")
    if task.user_objects.model is not None:
        raise RecipeError("--shard takes the models of recipes. Leave it out for a model of your own.")


class ShardedStep(DataParallelStep):
    """One process's part of a step, on its part of a copy of the model.

    model: the whole one, the same on all processes; it is not changed.
    memory: the optimizer's state on rank 0, and of the others tensors of the same shapes, perhaps on no device.
    seed: of the run, to find by its first batch which layers are called.
    """

    def __init__(
        self,
        task: Task,
        model: nn.Module,
        memory: Mapping[str, Tensor],
        device: torch.device,
        precision: str,
        processes: Processes,
        seed: int,
    ) -> None:
        sharded = copy.deepcopy(model).cpu().train()
        self.layers = called_layers(sharded, lambda: try_loss(task, sharded, seed))
        mesh = init_device_mesh(device.type, (processes.size,))
        self.called = Called(sharded)
        with reaching(processes.size):
            super().__init__(task, sharded, _no_optimizer(sharded), device, precision, processes)
            for layer in self.layers:
                # Before FSDP2's own hook, which waits for the gradient of what this one gives.
                layer.register_forward_hook(_without_views)
                fully_shard(layer, mesh=mesh, reshard_after_forward=True)
            fully_shard(self.called, mesh=mesh, reshard_after_forward=False)
            for module in self.called.modules():
                if isinstance(module, FSDPModule):
                    # Parts add up to the loss of the batch: their gradients are summed, not averaged.
                    module.set_gradient_divide_factor(1.0)
                    # A sum that is scaled on its way is one that gloo does not have.
                    module.set_force_sum_reduction_for_comms(True)
            self.trained = [p for p in sharded.parameters() if p.requires_grad]
            trained = task.trained_parameters(sharded)
            self.optimizer = optimizer.make(task.recipe, trained, device, in_shards=True)
            if memory:
                optimizer.load_state(self.optimizer, self._parts(memory, mesh))

    def _parts(self, memory: Mapping[str, Tensor], mesh: DeviceMesh) -> dict[str, Tensor]:
        """This process's parts of what rank 0 holds whole."""
        parts: dict[str, Tensor] = {}
        for name, x in memory.items():
            whole = torch.empty(x.shape, dtype=x.dtype, device=self.device) if x.is_meta else x.to(self.device)
            if x.dim():
                parts[name] = distribute_tensor(whole, mesh, [Shard(0)])
            else:
                self.processes.share([whole])
                parts[name] = whole
        return parts

    def __call__(self, batch: Batch, carry: Carry) -> Loss:
        with reaching(self.processes.size):
            return super().__call__(batch, carry)

    def _loss(self, part: Batch, batch: Batch, carry: Carry) -> Loss:
        loss, carry = self.called(lambda model: self.task.loss_part(model, part, batch, carry))
        return loss, carry

    def _summed(self, loss: Tensor) -> Tensor:
        # Gradients are summed on the way back.
        total = loss.clone().reshape(1)
        self.processes.sum(total)
        return total.squeeze(0)

    def gather(self, model: nn.Module | None) -> dict[str, Tensor]:
        """Put the parameters and buffers into a model, from all processes; the optimizer's state, whole.

        model: None on processes that do not need them. They take part, and have nothing of it.
        """
        with reaching(self.processes.size), torch.no_grad():
            for name, x in [*self.model.named_parameters(), *self.model.named_buffers()]:
                whole = _whole(x)
                if model is not None:
                    _named(model, name).copy_(whole)
            state = {}
            for name, x in optimizer.state_tensors(self.optimizer).items():
                whole = _whole(x)
                if model is not None:
                    state[name] = whole.cpu()
        return state


class Called(nn.Module):
    """A model that is called by a function of it. A task's loss may call any method, and FSDP2 sees `forward` alone."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, loss: Callable[[nn.Module], Loss]) -> Loss:
        return loss(self.model)


def called_layers(model: nn.Module, call: Callable[[], object]) -> list[nn.Module]:
    """The layers of stacks (`nn.ModuleList`) whose `forward` is called, and whose parameters nothing else has."""
    candidates = [
        layer for stack in model.modules() if isinstance(stack, nn.ModuleList) for layer in stack if _is_own(layer)
    ]
    calls = LayerCalls(candidates)
    random = torch.get_rng_state()
    model.eval()
    with torch.no_grad(), calls:
        call()
    model.train()
    torch.set_rng_state(random)
    uses = Counter(id(p) for _, p in model.named_parameters(remove_duplicate=False))
    layers: list[nn.Module] = []
    inside: set[int] = set()
    for layer in candidates:
        here = Counter(id(p) for _, p in layer.named_parameters(remove_duplicate=False))
        if calls.whole(layer) and id(layer) not in inside and all(uses[p] == here[p] for p in here):
            layers.append(layer)
            inside |= {id(module) for module in layer.modules()}
    return layers


class LayerCalls(TorchFunctionMode):
    """Notes which layers are called, and which have a parameter that is used outside of their call, as by a penalty."""

    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.owners = {id(p): id(layer) for layer in layers for p in layer.parameters()}
        self.called: set[int] = set()
        self.outside: set[int] = set()
        self.active: Counter[int] = Counter()
        self.hooks = [hook for layer in layers for hook in self._watch(layer)]

    def _watch(self, layer: nn.Module) -> tuple[RemovableHandle, RemovableHandle]:
        def before(*_: object) -> None:
            self.called.add(id(layer))
            self.active[id(layer)] += 1

        def after(*_: object) -> None:
            self.active[id(layer)] -= 1

        return layer.register_forward_pre_hook(before), layer.register_forward_hook(after)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for x in tree_leaves((args, kwargs)):
            owner = self.owners.get(id(x))
            if owner is not None and not self.active[owner]:
                self.outside.add(owner)
        return func(*args, **(kwargs or {}))

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        for hook in self.hooks:
            hook.remove()

    def whole(self, layer: nn.Module) -> bool:
        """Whether the layer is called, and its parameters are used by its calls alone."""
        return id(layer) in self.called and id(layer) not in self.outside


def _is_own(layer: nn.Module) -> bool:
    """Whether it has parameters and is called by `forward`: a list of layers has none."""
    return not isinstance(layer, nn.ModuleList | nn.ModuleDict) and any(True for _ in layer.parameters())


def try_loss(task: Task, model: nn.Module, seed: int) -> None:
    """The loss of a few examples of the first batch, on a CPU."""
    batch, dim = tuple(task.batches(1, seed)[0]), task.example_dim()
    count = min(2, batch[0].shape[dim])
    part = task.part(batch, 0, max(1, batch[0].shape[dim] // count))
    rows = part[0].shape[dim]
    carry = {name: x.cpu().narrow(dim, 0, rows).contiguous() for name, x in task.start(model).items()}
    task.loss_part(model, part, batch, carry)


def _no_optimizer(model: nn.Module) -> torch.optim.Optimizer:
    """A place-holder: the optimizer is made of the parts, which are there once the model is sharded."""
    return torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.0)


def _without_views(module: nn.Module, inputs: Any, output: Any) -> Any:
    """A layer's answer, with a copy of what is a view: changed in place it would lose FSDP2's hook and its gradient."""
    return tree_map(lambda x: x.clone() if isinstance(x, Tensor) and x._is_view() else x, output)


def _whole(x: Tensor) -> Tensor:
    return x.full_tensor() if isinstance(x, DTensor) else x


def _named(model: nn.Module, name: str) -> Tensor:
    *parents, last = name.split(".")
    found: Tensor = getattr(model.get_submodule(".".join(parents)), last)
    return found

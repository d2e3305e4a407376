"""The step of rank 0, which leads: it tells the other processes to take it too."""

import dataclasses

from torch import Tensor

from porism.training import optimizer
from porism.training.distributed.averaging import AveragedStep, shared_step
from porism.training.distributed.processes import Processes
from porism.training.distributed.step import DataParallelStep, gather, get_ready, layout, part_of
from porism.training.position import TrainingState
from porism.training.task import Batch, Carry
from porism.version import __version__


class LeadingStep:
    """The step of rank 0, which tells the others to take it too."""

    def __init__(self, training: TrainingState, processes: Processes) -> None:
        self.training, self.processes = training, processes
        task, model, facts, device = training.task, training.model, training.run.facts, training.device
        # FSDP takes half a second to load, which only those wait for who use it.
        if training.shard:
            from porism.training.distributed.sharding import ShardedStep, check_shards

            check_shards(task)
        self._handed: Carry | None = None
        self._rows = 0
        state = optimizer.state_tensors(training.optimizer)
        processes.send(
            {
                "do": "train",
                "version": __version__,
                "facts": {name: value for name, value in dataclasses.asdict(facts).items() if value is not None},
                "fields": training.run.fields,
                "optimizer": layout(state),
                "shard": training.shard,
                "go_on": processes.launch.resuming(training.run.path, shard=training.shard),
            }
        )
        get_ready(processes, lambda: None)  # has its data
        processes.share([*model.parameters(), *model.buffers()])
        self.own: DataParallelStep | AveragedStep
        self.sharded: ShardedStep | None = None
        if training.shard:
            self.own = self.sharded = ShardedStep(task, model, state, device, facts.precision, processes, facts.seed)
        else:
            processes.share(state.values())
            self.own = shared_step(task, model, training.optimizer, device, facts.precision, processes)

    def __call__(self, batch: Batch, carry: Carry) -> tuple[Tensor, Carry]:
        at, dim = self.training.position, self.own.dim
        if self.sharded is not None:
            optimizer.set_rate(self.sharded.optimizer, self.training.rate)
            # The whole model was there to be saved or evaluated.
            self.training.model.to("cpu")
            self.training.optimizer.state.clear()
        message = {"do": "step", "epoch": at.epoch, "step": at.step, "rate": self.training.rate}
        # At the start of an epoch, and of a run that is resumed, the carry is of the whole batch.
        if carry is not self._handed:
            self.processes.send({**message, "carry": layout(carry)})
            self.processes.share(carry.values())
            carry = {name: part_of(x, dim, self.processes) for name, x in carry.items()}
        else:
            self.processes.send(message)
        loss, carry = self.own(batch, carry)
        self._handed, self._rows = carry, batch[0].shape[dim]
        return loss, carry

    def whole(self, carry: Carry) -> Carry:
        """The carry of the whole batch, to be saved; and a model that lies in parts is whole again on rank 0."""
        if self.sharded is not None:
            self.processes.send({"do": "gather model"})
            state = self.sharded.gather(self.training.model)
            self.training.model.to(self.training.device)
            if state:
                optimizer.load_state(self.training.optimizer, state)
        if carry is not self._handed or not carry:
            return carry
        self.processes.send({"do": "gather"})
        return gather(carry, self.own.dim, self._rows, self.processes)

"""A process that follows rank 0: it takes its part of every step, and neither writes nor prints."""

import signal
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import torch
from torch import Tensor

from porism.errors import DataError, PorismError, RunError, one_line
from porism.runs.run import RunFacts
from porism.training import optimizer
from porism.training.device import choose_device
from porism.training.distributed.averaging import AveragedStep, shared_step
from porism.training.distributed.lost import ProcessLost, with_command
from porism.training.distributed.processes import Processes
from porism.training.distributed.sharding import ShardedStep
from porism.training.distributed.step import DataParallelStep, check_shareable, gather, get_ready, part_of
from porism.training.own_model import OwnModel, imported
from porism.training.session import prepare, recipe_from
from porism.training.task import Batch, Carry, Task, UserObjects
from porism.version import __version__

FindTask = Callable[[str], type[Task]]
MOST_SEED = 2**63


def follow(processes: Processes, find: FindTask) -> int:
    """Do what rank 0 says until it says stop; its exit code.

    find: the task of a name.

    Raises ProcessLost where nobody else says so: where it is rank 0 that was lost.
    """
    # Rank 0 decides what a signal to end means: it saves, then it stops all.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    follower = Follower(processes, find)
    try:
        while (message := processes.receive())["do"] != "stop":
            if message["do"] == "train":
                follower.get_ready(message)
            elif message["do"] == "step":
                follower.step(message)
            elif message["do"] == "help load":
                find(message["task"]).help_load(processes, message["request"])
            elif message["do"] == "gather model":
                follower.gather_model()
            else:
                follower.gather()
    except ProcessLost as lost:
        if processes.must_tell():
            raise with_command(lost, processes.launch, follower.go_on) from lost
        return lost.exit_code
    except PorismError as error:
        # In the middle of a step, as where a file of the data is gone. It cannot go on, and rank 0 waits for its part.
        processes.give_up(str(error))
        return error.exit_code
    except Exception as error:
        processes.give_up(one_line(error))
        raise
    code: int = message["code"]
    return code


class Follower:
    """The data, the model and the optimizer of a process that follows rank 0, at the same step as rank 0's."""

    def __init__(self, processes: Processes, find: FindTask) -> None:
        self.processes, self.find = processes, find
        self.own: DataParallelStep | AveragedStep
        self.go_on: str | None = None
        """The command that goes on with the run, once there is one."""

    def get_ready(self, message: dict[str, Any]) -> None:
        """Load the data of the run, and take over the model and the optimizer as they are."""
        self.go_on = message["go_on"]

        def load() -> None:
            if message["version"] != __version__:
                raise RunError(f"it has porism {__version__}, rank 0 has {message['version']}. Install the same.")
            self._load(msgspec.convert(message["facts"], RunFacts), message["fields"], message["shard"])

        if not get_ready(self.processes, load):
            return
        self.processes.share([*self.model.parameters(), *self.model.buffers()])
        facts = self.facts
        if message["shard"]:
            layouts = {name: _empty(shape, kind, "meta") for name, shape, kind in message["optimizer"]}
            self.own = ShardedStep(
                self.task, self.model, layouts, self.device, facts.precision, self.processes, facts.seed
            )
            # It has taken its part.
            del self.model
            return
        made = optimizer.make(self.task.recipe, self.task.trained_parameters(self.model), self.device)
        state = {name: _empty(shape, kind) for name, shape, kind in message["optimizer"]}
        self.processes.share(state.values())
        if state:
            optimizer.load_state(made, state)
        # A step of the task's own may ask torch for the run's seed.
        torch.manual_seed(self.seed)
        self.own = shared_step(self.task, self.model, made, self.device, facts.precision, self.processes)

    def _load(self, facts: RunFacts, fields: dict[str, Any], shard: bool) -> None:
        kind = self.find(facts.task)
        own = None if facts.model is None else OwnModel(imported(facts.model), facts.model)
        self.task = prepare(kind, recipe_from(kind, fields), facts.source, UserObjects(model=own))
        if (found := self.task.fingerprint()) != facts.fingerprint:
            raise DataError(
                f"its data ({facts.source or 'the embedded default'}) is not that of rank 0: the sha256 begins "
                f"{found[:12]}, expected {facts.fingerprint[:12]}. Bring the same files to every machine."
            )
        torch.set_num_threads(facts.threads)
        self.device = choose_device(facts.device)
        check_shareable(self.task, self.device)
        # Whole on a GPU only where it stays whole.
        self.model = self.task.new_model().to("cpu" if shard else self.device).train()
        self.facts, self.seed, self.epoch = facts, facts.seed, 0
        self.batches: Sequence[Batch] = ()
        self.carry: Carry = {}
        self.rows = 0

    def step(self, message: dict[str, Any]) -> None:
        """Take one step on this process's part of a batch."""
        epoch, step, dim = message["epoch"], message["step"], self.own.dim
        if epoch != self.epoch:
            self.batches, self.epoch = self.task.batches(epoch, self.seed), epoch
        if "carry" in message:
            carry = {name: _empty(shape, kind) for name, shape, kind in message["carry"]}
            self.processes.share(carry.values())
            self.carry = {name: part_of(x, dim, self.processes).to(self.device) for name, x in carry.items()}
        batch = self.batches[step]
        optimizer.set_rate(self.own.optimizer, message["rate"])
        # What is drawn at random, as in dropout, is this process's own, and the same in a run that is resumed.
        place = ((self.seed * 1_000_003 + epoch) * 1_000_003 + step) * self.processes.size + self.processes.rank
        torch.manual_seed(place % MOST_SEED)
        _, self.carry = self.own(batch, self.carry)
        self.rows = batch[0].shape[dim]

    def gather(self) -> None:
        """Give rank 0 this process's part of the carry."""
        gather(self.carry, self.own.dim, self.rows, self.processes)

    def gather_model(self) -> None:
        """Give rank 0 this process's part of the model and of the optimizer's memory."""
        assert isinstance(self.own, ShardedStep)
        self.own.gather(None)


def _empty(shape: list[int], kind: str, device: str = "cpu") -> Tensor:
    return torch.empty(shape, dtype=getattr(torch, kind), device=device)

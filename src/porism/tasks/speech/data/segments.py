"""A long recording as pieces, cut where it is quiet.

>>> [piece.seconds for piece in pieces(Sound(torch.zeros(16_000 * 50), 16_000), seconds=20)]
[19.95, 19.95, 10.1]
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from porism.tasks.speech.data.audio import RATE, Sound, open_blocks

PIECE_SECONDS = 20.0
MOMENT_SECONDS = 0.02
PAUSE_MOMENTS = 5
"""A pause is as quiet as its mean over so many moments, so that the closure of a `t` is not taken for one."""


def pieces(sound: Sound, seconds: float = PIECE_SECONDS) -> list[Sound]:
    """A sound as pieces of at most `seconds`; a short one is the only piece."""
    return list(_cut([sound.samples], sound.rate, seconds, sound.notes))


def read_pieces(path: Path, rate: int = RATE, seconds: float = PIECE_SECONDS) -> Iterator[Sound]:
    """The same of a file of any length, of which only a piece and a block are in memory."""
    with open_blocks(path, rate) as (blocks, notes):
        yield from _cut(blocks, rate, seconds, notes)


def _cut(blocks: Iterable[Tensor], rate: int, seconds: float, notes: tuple[str, ...]) -> Iterator[Sound]:
    longest = max(1, int(seconds * rate))
    waiting = torch.empty(0)
    start = 0

    def piece(samples: Tensor) -> Sound:
        end = start + len(samples)
        return Sound(samples, rate, (*notes, f"from {start / rate:.1f} s to {end / rate:.1f} s"))

    for block in blocks:
        waiting = torch.cat([waiting, block])
        while len(waiting) > longest:
            place = quiet_place(waiting[:longest], rate)
            yield piece(waiting[:place])
            start += place
            waiting = waiting[place:]
    if start == 0:
        yield Sound(waiting, rate, notes)
    elif len(waiting):
        yield piece(waiting)


def quiet_place(samples: Tensor, rate: int) -> int:
    """The middle of the quietest pause in the second half, the latest of equals; the end where there is none."""
    moment = max(1, int(MOMENT_SECONDS * rate))
    first = len(samples) // 2
    moments = (len(samples) - first) // moment
    if moments < PAUSE_MOMENTS:
        return len(samples)
    energies = samples[first : first + moments * moment].view(moments, moment).square().mean(1)
    pauses = energies.unfold(0, PAUSE_MOMENTS, 1).mean(1)
    latest = len(pauses) - 1 - int(pauses.flip(0).argmin())
    return first + latest * moment + PAUSE_MOMENTS * moment // 2

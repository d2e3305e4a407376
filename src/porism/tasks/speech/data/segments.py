"""A long recording as segments, cut at pauses.

>>> [segment.seconds for segment in segments(Sound(torch.zeros(16_000 * 50), 16_000), seconds=20)]
[19.95, 19.95, 10.1]
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

from porism.tasks.speech.data.audio import RATE, Sound, open_blocks

SEGMENT_SECONDS = 20.0
FRAME_SECONDS = 0.02
PAUSE_FRAMES = 5
"""The energy of a pause is the mean over so many frames, so that the closure of a `t` is not taken for one."""


def segments(sound: Sound, seconds: float = SEGMENT_SECONDS) -> list[Sound]:
    """A sound as segments of at most `seconds`; a short sound is its only segment."""
    return list(_cut([sound.samples], sound.rate, seconds, sound.notes))


def read_segments(path: Path, rate: int = RATE, seconds: float = SEGMENT_SECONDS) -> Iterator[Sound]:
    """The same of a file of any length, of which only a segment and a block are in memory."""
    with open_blocks(path, rate) as (blocks, notes):
        yield from _cut(blocks, rate, seconds, notes)


def _cut(blocks: Iterable[Tensor], rate: int, seconds: float, notes: tuple[str, ...]) -> Iterator[Sound]:
    longest = max(1, int(seconds * rate))
    waiting = torch.empty(0)
    start = 0

    def segment(samples: Tensor) -> Sound:
        end = start + len(samples)
        return Sound(samples, rate, (*notes, f"from {start / rate:.1f} s to {end / rate:.1f} s"))

    for block in blocks:
        waiting = torch.cat([waiting, block])
        while len(waiting) > longest:
            end = last_pause(waiting[:longest], rate)
            yield segment(waiting[:end])
            start += end
            waiting = waiting[end:]
    if start == 0:
        yield Sound(waiting, rate, notes)
    elif len(waiting):
        yield segment(waiting)


def last_pause(samples: Tensor, rate: int) -> int:
    """The middle of the quietest pause in the second half, the latest of equals; the end where there is none."""
    frame = max(1, int(FRAME_SECONDS * rate))
    first = len(samples) // 2
    frames = (len(samples) - first) // frame
    if frames < PAUSE_FRAMES:
        return len(samples)
    energies = samples[first : first + frames * frame].view(frames, frame).square().mean(1)
    pauses = energies.unfold(0, PAUSE_FRAMES, 1).mean(1)
    latest = len(pauses) - 1 - int(pauses.flip(0).argmin())
    return first + latest * frame + PAUSE_FRAMES * frame // 2

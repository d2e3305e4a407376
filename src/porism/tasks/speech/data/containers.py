"""Truncated files, found by the lengths in their headers: some decoders ignore that the end is missing.

A partial copy would otherwise be taken for a shorter recording, with a transcript that says more than the sound.
"""

import math
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Literal

import numpy as np

HEAD_BYTES = 4096
TAG_BYTES = 1 << 16
"""A tag before an MP3's first frame, with room left in it, is hardly longer."""
# Written by programs that stream and never come back to put in the length.
OPEN_ENDED = (0, 0x7FFFFFFF, 0xFFFFFFFF)


def bytes_missing(path: Path) -> int:
    """How many bytes the end of a WAV, NIST SPHERE, Ogg or MP3 file lacks of what its headers promise."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        if head[:4] == b"RIFF":
            end = _end_of_wave_data(file)
        elif head.startswith(b"NIST_1A"):
            end = _end_of_sphere_data(head)
        elif head.startswith(b"OggS"):
            end = max(_ends_of_ogg_pages(file), default=0)
        else:
            end = _end_of_mpeg_stream(file)
    return max(0, end - size)


def holds_mpeg(path: Path) -> bool:
    """Whether the byte that every frame of an MP3 begins with occurs at all. In text, of any language, it does not."""
    with path.open("rb") as file:
        return b"\xff" in file.read(TAG_BYTES)


def smoother_byte_order(path: Path) -> Literal["LITTLE", "BIG"]:
    """The byte order of a file of bare 16-bit samples: in the wrong one, speech is noise."""
    content = path.read_bytes()
    whole = content[: len(content) // 2 * 2]

    def leaps(order: str) -> float:
        return float(np.abs(np.diff(np.frombuffer(whole, order).astype(np.float64))).sum())

    return "LITTLE" if leaps("<i2") <= leaps(">i2") else "BIG"


def _end_of_wave_data(file: IO[bytes]) -> int:
    file.seek(12)
    while len(chunk := file.read(8)) == 8:
        name, length = struct.unpack("<4sI", chunk)
        if name == b"data":
            return 0 if length in OPEN_ENDED else file.tell() + int(length)
        file.seek(length + length % 2, 1)
    return 0


def _end_of_sphere_data(head: bytes) -> int:
    """The second line is the header's length; fields follow. What is no such header is left to the decoder."""
    length = re.match(rb"NIST_1A\s+(\d+)", head)
    fields = dict(re.findall(rb"(\w+) -i (\d+)", head))
    sizes = [fields.get(name) for name in (b"sample_count", b"sample_n_bytes", b"channel_count")]
    return int(length[1]) + math.prod(int(size) for size in sizes if size) if length and all(sizes) else 0


def _ends_of_ogg_pages(file: IO[bytes]) -> Iterator[int]:
    """Where each page ends: 27 bytes of header, of which the last counts the lengths that follow it, then the data."""
    file.seek(0)
    while (header := file.read(27)).startswith(b"OggS"):
        lengths = file.read(header[26]) if len(header) == 27 else b""
        end = file.seek(sum(lengths), 1)
        # A header that broke off has at least its own rest and a byte of data to come.
        yield end if len(header) == 27 and len(lengths) == header[26] else end + 1


def _end_of_mpeg_stream(file: IO[bytes]) -> int:
    """From the Xing or Info tag that encoders put into the first frame; without one the length is unknown: 0."""
    file.seek(0)
    start = 0
    if (tag := file.read(10)).startswith(b"ID3") and len(tag) == 10:
        start = 10 + sum(byte << shift for byte, shift in zip(tag[6:], (21, 14, 7, 0), strict=True))
    file.seek(start)
    frame = file.read(HEAD_BYTES)
    found = re.search(rb"(?:Xing|Info)\0\0\0(.)", frame[:64], re.DOTALL)
    if not frame.startswith(b"\xff") or not found:
        return 0
    has_frames, has_bytes = found[1][0] & 1, found[1][0] & 2
    position = found.end() + 4 * has_frames
    return start + int.from_bytes(frame[position : position + 4]) if has_bytes else 0

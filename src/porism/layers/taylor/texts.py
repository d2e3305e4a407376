"""Texts that lie end to end, as the padded batch that they stand for."""

from collections.abc import Sequence

from torch import Tensor

from porism.errors import ShapeError
from porism.layers.ragged import pack, starts, unpack


class Texts:
    """Queries, keys and values of texts end to end, (1, A, T, D); `padded` are those of the batch, and its padding."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        cumulative_lengths: Sequence[int] | Tensor,
        key_padding: Tensor | None,
        offset: int,
        layer: str = "taylor",
    ) -> None:
        T, S = q.shape[2], k.shape[2]
        if key_padding is not None or offset:
            raise ShapeError(
                f"{layer}: cumulative_lengths came with key_padding or an offset. Texts end to end need none."
            )
        if T != S:
            raise ShapeError(
                f"{layer}: with cumulative lengths each text attends to itself, and {T} queries came with {S} keys. "
                "Pad the texts with key_padding."
            )
        self._borders = starts(cumulative_lengths, T)
        (q, padding), (k, _), (v, _) = (unpack(x, self._borders) for x in (q, k, v))
        self.padded = q, k, v, padding

    def end_to_end(self, answer: Tensor) -> Tensor:
        """Back from the padded batch."""
        return pack(answer, self._borders)

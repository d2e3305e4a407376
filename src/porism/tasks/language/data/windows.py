"""From one long stream to what a recurrent net is fed: rows side by side, then windows along them."""

from torch import Tensor

from porism.errors import DataError, RecipeError
from porism.tasks.blocks.batches import LazyBatches

Window = tuple[Tensor, Tensor]


def rows(stream: Tensor, batch: int) -> Tensor:
    """The stream cut into `batch` contiguous rows, the remainder dropped; each column of the answer is one row.

    >>> rows(torch.arange(7), batch=2)
    tensor([[0, 3],
            [1, 4],
            [2, 5]])

    Shapes: stream (tokens,) -> (T, B), T = tokens // B.
    """
    if batch < 1:
        raise RecipeError(f"language: the batch is {batch}, expected at least 1.")
    length = len(stream) // batch
    if length < 2:
        advice = f"Use a batch of at most {len(stream) // 2}" if len(stream) > 1 else "Give more text"
        raise DataError(
            f"language: {len(stream)} tokens do not fill {batch} rows of 2, one to read and one to predict. {advice}."
        )
    return stream[: length * batch].view(batch, length).t().contiguous()


class Windows(LazyBatches):
    """Windows of `steps` tokens and the tokens that follow them, in order along the rows; the last may be shorter.

    Every token but the first of each row is a target exactly once.

    >>> x, y = Windows(rows(torch.arange(7), batch=2), steps=2)[0]
    >>> x.tolist(), y.tolist()
    ([[0, 3], [1, 4]], [[1, 4], [2, 5]])

    Shapes: x (steps, B), y (steps, B).
    """

    def __init__(self, rows: Tensor, steps: int) -> None:
        if steps < 1:
            raise RecipeError(f"language: windows of {steps} steps, expected at least 1.")
        self._rows = rows
        self._steps = steps

    def __len__(self) -> int:
        return -(-(len(self._rows) - 1) // self._steps)

    def batch(self, number: int) -> Window:
        first = number * self._steps
        last = min(first + self._steps, len(self._rows) - 1)
        return self._rows[first:last], self._rows[first + 1 : last + 1]

"""A CUDA graph whose capture may fail without harm to what runs after it."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def capture(graph: torch.cuda.CUDAGraph) -> Iterator[None]:
    """As torch.cuda.graph. After a failed capture torch's own leaves its stream current and its generator in capture,
    and then the next dropout of the process raises; here both are put back as they were."""
    stream = torch.cuda.current_stream()
    generator = torch.cuda.default_generators[stream.device.index]
    before = generator.clone_state()
    try:
        with torch.cuda.graph(graph):
            yield
    except BaseException:
        torch.cuda.set_stream(stream)
        generator.graphsafe_set_state(before)
        raise

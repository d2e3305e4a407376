"""The keys and values that decoding remembers, in memory that grows without a copy at every token."""

import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor
from torch.serialization import add_safe_globals
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import GetAttrKey, register_pytree_node

from porism.errors import ShapeError
from porism.layers.attention.pattern import Pattern
from porism.layers.operands import check_indices
from porism.layers.operators import is_unobserved

LEAST_SPARE = 16
"""A new buffer has spare rows for half as many tokens as were copied, and for so many at least."""


class KVCache:
    """The keys (B, G, S, D) and values (B, G, S, H) of all tokens so far; (B, S), True for a pad, if there was one.

    >>> k, v = torch.randn(2, 1, 8, 9, 64)                              # twice B A T D
    >>> first, new = KVCache(k[:, :, :8], v[:, :, :8]), KVCache(k[:, :, 8:], v[:, :, 8:])
    >>> new.after(first).length, new.after(first).last(3).length
    (9, 3)

    `pattern` is the one that the tokens were decoded with, since it says which of them were kept; None if not known.
    The four are read by name or in this order, as those of a named tuple.

    A cache is a value: it may be kept, continued twice, changed in place by its tensors, and no other one notices.
    Without a gradient, on a CPU, to continue it costs no copy, since states of one text share a buffer with rows for
    tokens to come, where only the longest of them may write. `k` and `v` are copied out of that memory when they are
    first read, and are the cache's own from then on, so that its next continuation copies them once more; `length` and
    `nbytes` copy nothing.
    """

    _fields = ("k", "v", "padding", "pattern")

    def __init__(self, k: Tensor, v: Tensor, padding: Tensor | None = None, pattern: Pattern | None = None) -> None:
        self._k, self._v, self._padding, self._pattern = k, v, padding, pattern
        self._buffer: KVBuffer | None = None

    @property
    def k(self) -> Tensor:
        self._leave_buffer()
        return self._k

    @property
    def v(self) -> Tensor:
        self._leave_buffer()
        return self._v

    @property
    def padding(self) -> Tensor | None:
        return self._padding

    @property
    def pattern(self) -> Pattern | None:
        return self._pattern

    @property
    def length(self) -> int:
        return self._k.shape[2]

    @property
    def nbytes(self) -> int:
        """The memory that it holds on to, with the spare rows for tokens to come, which others may share."""
        parts = [self._k, self._v] if self._padding is None else [self._k, self._v, self._padding]
        storages = [part.untyped_storage() for part in parts]
        return sum({storage._cdata: storage.nbytes() for storage in storages}.values())

    def read(self) -> tuple[Tensor, Tensor]:
        """Keys and values to compute with, without a copy. Others may share them: neither keep nor change them."""
        return self._k, self._v

    def after(self, state: "KVCache | None", layer: str = "attention") -> "KVCache":
        """These tokens after those of a previous state, which has to be of the same batch, heads and pattern."""
        if state is None:
            return self
        self._check_continues(state, layer)
        k, v = torch.cat([state._k, self._k], 2), torch.cat([state._v, self._v], 2)
        return KVCache(k, v, self._padding_after(state), self._pattern)

    def appended_to(self, state: "KVCache | None", layer: str = "attention") -> "KVCache":
        """As `after`, in a buffer with rows for more, where the previous tokens are mostly already."""
        if not isinstance(state, KVCache) or not _may_share(self._k, self._v, state._k, state._v):
            return self.after(state, layer)
        self._check_continues(state, layer)
        start, end, buffer = state.length, state.length + self.length, state._buffer
        if buffer is None or not buffer.claim(start, end):
            buffer = KVBuffer(state._k, state._v, end)
        for rows, new in ((buffer.k, self._k), (buffer.v, self._v)):
            rows[:, :, start:end].copy_(new)
        tokens = KVCache(buffer.k[:, :, :end], buffer.v[:, :, :end], self._padding_after(state), self._pattern)
        tokens._buffer = buffer
        return tokens

    def last(self, count: int) -> "KVCache":
        """The last so many tokens, copied.

        A view would hold on to the memory of all the others, and would change when the caller overwrites it.
        """
        first = self.length - min(self.length, count)
        padding = None if self._padding is None else self._padding[:, first:].clone()
        return KVCache(self._k[:, :, first:].clone(), self._v[:, :, first:].clone(), padding, self._pattern)

    def reorder_cache(self, beam_idx: Tensor) -> "KVCache":
        """The tokens of the chosen texts of the batch, in the order of the indices (N,)."""
        beam_idx = checked_beams(beam_idx, self._k)
        padding = None if self._padding is None else self._padding.index_select(0, beam_idx)
        return KVCache(self._k.index_select(0, beam_idx), self._v.index_select(0, beam_idx), padding, self._pattern)

    def _leave_buffer(self) -> None:
        """Makes keys and values the cache's own, so that whoever reads them may change them."""
        buffer = self._buffer
        if buffer is None:
            return
        if torch.compiler.is_compiling():
            self._k, self._v, self._buffer = self._k.clone(), self._v.clone(), None
            return
        with buffer.lock:
            # Another thread may have been here since.
            if self._buffer is not None:
                self._k, self._v, self._buffer = _copied(self._k), _copied(self._v), None

    def _padding_after(self, state: "KVCache") -> Tensor | None:
        if state._padding is None and self._padding is None:
            return None
        return torch.cat([state._all_padding(), self._all_padding()], 1)

    def _all_padding(self) -> Tensor:
        if self._padding is not None:
            return self._padding
        return self._k.new_zeros(self._k.shape[0], self.length, dtype=torch.bool)

    def _check_continues(self, state: "KVCache", layer: str) -> None:
        """Refuses the state of another batch, layer or pattern."""
        if not isinstance(state, KVCache):
            raise ShapeError(
                f"{layer}: the state is a {type(state).__name__}, expected a KVCache. Pass what the same function gave."
            )
        for name, kept, new in (("keys", state._k, self._k), ("values", state._v, self._v)):
            if kept.dim() != 4 or kept.shape[:2] != new.shape[:2] or kept.shape[3] != new.shape[3]:
                raise ShapeError(
                    f"{layer}: the state has {name} of {tuple(kept.shape)}, the new ones are {tuple(new.shape)}. "
                    "Pass the state that the same batch gave."
                )
            if kept.dtype != new.dtype or kept.device != new.device:
                raise ShapeError(
                    f"{layer}: the state has {name} of {kept.dtype} on {kept.device}, the new ones are {new.dtype} on "
                    f"{new.device}. Pass the state that the same layer gave, under the same autocast."
                )
        if state._v.shape[2] != state.length or not state._has_fitting_padding():
            raise ShapeError(
                f"{layer}: the state has {state.length} keys, {state._v.shape[2]} values and padding that may not fit. "
                "Pass a state as it was given."
            )
        if state._pattern is not None and self._pattern is not None and state._pattern != self._pattern:
            raise ShapeError(
                f"{layer}: the state is of {state._pattern}, and {self._pattern} came. "
                "Decode with the pattern that the state was made with, or start without a state."
            )

    def _has_fitting_padding(self) -> bool:
        padding = self._padding
        if padding is None:
            return True
        expected = self._k.shape[0], self.length
        return padding.shape == expected and padding.dtype == torch.bool and padding.device == self._k.device

    def __iter__(self) -> Iterator[Any]:
        return iter((self.k, self.v, self._padding, self._pattern))

    def __len__(self) -> int:
        return len(self._fields)

    def __getitem__(self, index: Any) -> Any:
        return tuple(self)[index]

    def _replace(self, **fields: Any) -> "KVCache":
        return KVCache(**{**self._asdict(), **fields})

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        fields = zip(self._fields, (*self.read(), self._padding, self._pattern), strict=True)
        return f"KVCache({', '.join(f'{name}={field!r}' for name, field in fields)})"

    def __copy__(self) -> "KVCache":
        """Another cache of the same tensors."""
        return KVCache(*self)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle, torch.save and deepcopy: the tensors themselves, without the buffer."""
        return KVCache, tuple(self)


class KVBuffer:
    """Memory for keys and values of a text that grows, (B, G, C, D) and (B, G, C, H), shared by states of the text.

    The first `taken` rows are of its longest state and never change again. Whoever continues that state claims the rows
    after them and writes there, unseen by all others.
    """

    def __init__(self, k: Tensor, v: Tensor, end: int) -> None:
        """Memory that begins with a copy of these, with rows up to `end` claimed and half as many more to come."""
        self.taken = end
        # Reentrant, since copying may collect garbage, whose finalizers may read a state of the same text.
        self.lock = threading.RLock()
        C = end + max(end // 2, LEAST_SPARE)
        self.k, self.v = (x.new_empty(*x.shape[:2], C, x.shape[3]) for x in (k, v))
        for rows, x in ((self.k, k), (self.v, v)):
            rows[:, :, : x.shape[2]].copy_(x)

    def claim(self, start: int, end: int) -> bool:
        """Whether the rows from `start` to `end` are the caller's now: only one state of that length ever gets them."""
        if end > self.k.shape[2] or (self.k.is_inference() and not torch.is_inference_mode_enabled()):
            return False
        with self.lock:
            if self.taken != start:
                return False
            self.taken = end
            return True


def checked_beams(beam_idx: Tensor, batch: Tensor) -> Tensor:
    """Indices into the batch, the first dimension of a state's tensor, as int64; refuses what is no list of such."""
    check_indices("attention", "beam_idx", beam_idx, batch.shape[0], batch)
    if beam_idx.dim() != 1:
        raise ShapeError(f"attention: beam_idx are {tuple(beam_idx.shape)}, expected (N,): one index for each beam.")
    # torch.index_select takes none of the shorter types.
    return beam_idx.long()


def _may_share(*tensors: Tensor) -> bool:
    """Whether a call with these may write to shared memory: nobody records, transforms, traces or counts it."""
    return all(type(x) is Tensor for x in tensors) and is_unobserved(*tensors)


def _copied(x: Tensor) -> Tensor:
    """A copy that is an ordinary tensor, whatever mode or transform its reader is in, since it outlasts that."""
    with torch.inference_mode(False), torch.no_grad(), torch._C._DisableFuncTorch(), _disable_current_modes():
        return x.clone(memory_format=torch.contiguous_format)


def _flatten(cache: KVCache) -> tuple[list[Tensor], Pattern | None]:
    # No leaf is None, which vmap and vjp refuse.
    tensors = cache.k, cache.v, cache.padding
    return [x for x in tensors if x is not None], cache.pattern


def _flatten_with_keys(cache: KVCache) -> tuple[list[tuple[Any, Tensor]], Pattern | None]:
    tensors, pattern = _flatten(cache)
    return [(GetAttrKey(name), x) for name, x in zip(KVCache._fields, tensors, strict=False)], pattern


def _unflatten(tensors: Iterable[Any], pattern: Pattern | None) -> KVCache:
    k, v, *padding = tensors
    return KVCache(k, v, padding[0] if padding else None, pattern)


def _as_json(pattern: Pattern | None) -> dict[str, Any] | None:
    return None if pattern is None else asdict(pattern)


def _from_json(fields: dict[str, Any] | None) -> Pattern | None:
    return None if fields is None else Pattern(**fields)


register_pytree_node(
    KVCache,
    _flatten,
    _unflatten,
    serialized_type_name=f"{KVCache.__module__}.KVCache",
    flatten_with_keys_fn=_flatten_with_keys,
    # A program of torch.export is saved with the pattern of the caches that it takes.
    to_dumpable_context=_as_json,
    from_dumpable_context=_from_json,
)
# A saved cache is loaded without weights_only=False.
add_safe_globals([KVCache, Pattern])

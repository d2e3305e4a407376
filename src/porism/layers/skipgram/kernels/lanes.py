"""Eight numbers at a time in what numba compiles.

Left to itself the compiler turns a loop over one row into vector instructions, and a loop over several rows at once,
some of them written to, into none: it cannot know that rows lie apart. Here a kernel says itself what it reads and
writes, and when.
"""

from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.cgutils import get_or_insert_function
from numba.core.datamodel import PrimitiveModel
from numba.extending import intrinsic, register_model

LANES = 8
STRIDE = 4 * LANES
"""Bytes of eight numbers of float32. Two vector registers of an ARM core, one of an x86."""

LINE = 64
"""Bytes that memory hands over at a time."""

_VECTOR = ir.VectorType(ir.FloatType(), LANES)
_INDEX = ir.IntType(32)


class LanesType(types.Type):
    """Numba's name for eight numbers."""

    def __init__(self) -> None:
        super().__init__(name="lanes")


_LANES = LanesType()


@register_model(LanesType)
class _LanesModel(PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic
def load(_context: Any, _address: Any) -> Any:
    """The eight numbers at an address, a multiple of four bytes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _VECTOR.as_pointer()), align=4)

    return _LANES(types.int64), generate


@intrinsic
def store(_context: Any, _address: Any, _value: Any) -> Any:
    """Eight numbers to an address."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        address, value = arguments
        builder.store(value, builder.inttoptr(address, _VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, _LANES), generate


@intrinsic
def multiply_add(_context: Any, _a: Any, _b: Any, _c: Any) -> Any:
    """a b + c, rounded once where the machine can."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        a, b, c = arguments
        return builder.fadd(builder.fmul(a, b, flags=["contract"]), c, flags=["contract"])

    return _LANES(_LANES, _LANES, _LANES), generate


@intrinsic
def spread(_context: Any, _value: Any) -> Any:
    """One number eight times."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        unset = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(unset, arguments[0], ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(first, unset, ir.Constant(ir.VectorType(_INDEX, LANES), [0] * LANES))

    return _LANES(types.float32), generate


@intrinsic
def total(_context: Any, _value: Any) -> Any:
    """The sum of eight numbers, halves added until one is left."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        (value,), width = arguments, LANES
        while width > 1:
            width //= 2
            halves = [
                builder.shuffle_vector(
                    value, value, ir.Constant(ir.VectorType(_INDEX, width), list(range(start, start + width)))
                )
                for start in (0, width)
            ]
            value = builder.fadd(*halves)
        return builder.extract_element(value, ir.Constant(_INDEX, 0))

    return types.float32(_LANES), generate


@intrinsic
def ask_for(_context: Any, _address: Any) -> Any:
    """Tells the CPU that what lies at an address will be read soon."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        pointer = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [pointer, _INDEX, _INDEX, _INDEX])
        prefetch = get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        # To read, into the nearest cache, data.
        settings = [ir.Constant(_INDEX, setting) for setting in (0, 3, 1)]
        builder.call(prefetch, [builder.inttoptr(arguments[0], pointer), *settings])
        return context.get_dummy_value()

    return types.void(types.int64), generate

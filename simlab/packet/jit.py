"""One decorator for the compiled model: numba, cached on disk by the source of the whole engine.

numba's own cache only looks at the file of the cached function; a change in a helper of another
file would go unseen. Therefore the cache folder carries a digest of every engine file.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, MutableSequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numba as _numba
from numba import extending as _extending

ir: Any = import_module("llvmlite.ir")
numba: Any = _numba  # decorators of the engine keep the types of what they decorate
Ints = MutableSequence[int]
Reals = MutableSequence[float]
F = TypeVar("F", bound=Callable[..., object])
intrinsic: Callable[[F], Callable[..., Any]] = _extending.intrinsic
overload: Callable[..., Callable[[F], F]] = _extending.overload

# Set by NUMBA_DISABLE_JIT: the engine then runs as plain Python on lists (slow, for pdb).
INTERPRETED = bool(numba.config.DISABLE_JIT)
CHECKED = bool(os.environ.get("SIMLAB_CHECKED"))
INT_POINTER = numba.types.CPointer(numba.types.int64)
FLOAT_POINTER = numba.types.CPointer(numba.types.float64)


def _cache_folder() -> str:
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_bytes()
        if b"@jit" in text or b"@entry" in text or path.name.endswith("layout.py"):
            digest.update(text)
    base = os.environ.get("NUMBA_CACHE_DIR") or str(Path.home() / ".cache/fabric-tuner/numba")
    return str(Path(base) / digest.hexdigest()[:16])


_CACHE = _cache_folder()


def jit(function: F) -> F:
    """Compile a helper of the engine (nopython, C division, no cache of its own)."""
    compiled: F = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def entry(function: F) -> F:
    """Compile a function that Python calls, cached on disk with everything it calls."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = _CACHE
    try:
        compiled: F = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    finally:
        numba.config.CACHE_DIR = before
    return compiled


@intrinsic
def _int_pointer(_typing: Any, address: Any) -> Any:
    def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(INT_POINTER))

    return INT_POINTER(address), lower


@intrinsic
def _float_pointer(_typing: Any, address: Any) -> Any:
    def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(FLOAT_POINTER))

    return FLOAT_POINTER(address), lower


@intrinsic
def _prefetch(_typing: Any, pointer: Any, index: Any) -> Any:
    def lower(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        address = builder.bitcast(builder.gep(arguments[0], [arguments[1]]), byte)
        builder.call(function, [address, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return numba.types.void(pointer, index), lower


def fetch_ahead(vector: Ints, index: int) -> None:
    """Ask the processor for the cache line of `vector[index]`; no effect on results."""


@overload(fetch_ahead, strict=False)
def _fetch_ahead(vector: Any, index: Any) -> Any:  # noqa: ARG001  numba matches the names
    if CHECKED:
        return lambda vector, index: None  # noqa: ARG005
    return lambda vector, index: _prefetch(vector, index)  # noqa: PLW0108


def ints(vector: Ints) -> Ints:
    """Return the integer vector in the form that the engine indexes: a bare pointer."""
    return vector


def floats(vector: Reals) -> Reals:
    """Return the float vector in the form that the engine indexes: a bare pointer."""
    return vector


# Inside compiled code an array is 7 words and a reference count in every call; a pointer is one
# word. With SIMLAB_CHECKED=1 and NUMBA_BOUNDSCHECK=1 the arrays stay and every index is checked.
if not CHECKED:

    @overload(ints, strict=False)
    def _ints(vector: Any) -> Any:  # noqa: ARG001  numba matches the names
        return lambda vector: _int_pointer(vector.ctypes.data)

    @overload(floats, strict=False)
    def _floats(vector: Any) -> Any:  # noqa: ARG001  numba matches the names
        return lambda vector: _float_pointer(vector.ctypes.data)

else:

    @overload(ints, strict=False)
    def _ints_checked(vector: Any) -> Any:  # noqa: ARG001  numba matches the names
        return lambda vector: vector

    @overload(floats, strict=False)
    def _floats_checked(vector: Any) -> Any:  # noqa: ARG001  numba matches the names
        return lambda vector: vector

"""Kernels: functions that numba compiles at their first call, and imports of which cost nothing.

numba is imported at that call: it takes longer to import than all else that help, and most of the package, needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any, Protocol, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])

_making = threading.RLock()


class Kernel:
    """A function that becomes machine code when it, or a kernel that uses it, is called first.

    `made` is the name of what in `tvwrl.machine_code` makes it from the function and options. In other kernels numba
    finds what was made by the attributes `_numba_type_` and `targetoptions`.
    """

    def __init__(self, function: Callable[..., Any], made: str, options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._kind, self._options = made, options

    @cached_property
    def _made(self) -> Any:
        from tvwrl import machine_code

        with _making:  # two threads would make, and compile, it twice
            return self.__dict__.get("_made") or getattr(machine_code, self._kind)(self.py_func, **self._options)

    def __call__(self, *arguments: Any) -> Any:
        """What the function returns. Ctrl-C while it is compiled raises KeyboardInterrupt without numba's traceback."""
        try:
            return self._made(*arguments)
        except KeyboardInterrupt as interrupted:
            raise interrupted.with_traceback(None) from None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._made, name)

    def __reduce__(self) -> str:
        name: str = self.__qualname__  # pickled by name, as functions are
        return name


class _Decorator(Protocol):
    """A kernel has the type of the function that its author wrote, whether or not the decorator has options."""

    @overload
    def __call__(self, function: Function, /) -> Function: ...
    @overload
    def __call__(self, /, **options: Any) -> Callable[[Function], Function]: ...


def _decorator(made: str, **common: Any) -> _Decorator:
    def decorate(function: Any = None, /, **options: Any) -> Any:
        return partial(decorate, **options) if function is None else Kernel(function, made, common | options)

    return decorate


def plain(kernel: Function) -> Function:
    """The Python function of a kernel, which also takes arrays or tensors where it was written for numbers."""
    function: Function = kernel.py_func  # type: ignore[attr-defined]
    return function


njit = _decorator("njit")
"""Compile a function for the CPU, as `numba.njit` does, and keep the machine code on disk."""

vectorize = _decorator("vectorize")
"""Compile a function of scalars for arrays, as `numba.vectorize` does, and keep the machine code on disk."""

inner = _decorator("inner")
"""Compile a function that other kernels call, as `njit` does, but without the code by which Python would call it.

That code unpacks and checks every argument, and with tuples of many arrays takes longer to compile than the work.
Python (a test, say) may call an inner kernel too: it is then compiled again, as a kernel of its own.
"""

inlined = _decorator("inner", forceinline=True)
"""An inner kernel whose machine code is copied into every kernel that calls it: for large ones.

numba's own `inline="always"` copies the source instead. That makes the fastest code of small ones, as it is optimised
together with what surrounds it; but types are inferred anew in every copy, and the time grows faster than the size.
"""

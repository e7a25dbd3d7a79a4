"""What concerns the whole process: locks where it forks, and Python's search for cycles."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload
from weakref import WeakSet

T = TypeVar("T")


class RenewedLock:
    """A lock that is free in a child of `fork`, even if a thread held it that is not there.

    What it guards must make sense wherever that thread stopped.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        _renewed.add(self)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the lock inside the `with` block."""
        with self._lock:
            yield

    def renew(self) -> None:
        """Forget who holds it."""
        self._lock = threading.Lock()


_renewed: WeakSet[RenewedLock] = WeakSet()


def _renew_locks() -> None:
    for lock in list(_renewed):
        lock.renew()


os.register_at_fork(after_in_child=_renew_locks)

# Held around each use of LLVM, whose state is one for the process. A fork waits for it, so that the
# child does not have a compilation that nobody ends, with locks that nobody gives back.
llvm_lock = threading.RLock()
os.register_at_fork(
    before=llvm_lock.acquire,
    after_in_parent=llvm_lock.release,
    after_in_child=llvm_lock.release,
)


class lazy_property(Generic[T]):
    """A property whose value is computed at its first use and kept with the object.

    Threads that ask at once may each compute it; all get the value of the first that ends. There is
    no lock: `functools.cached_property` has one for all objects of a class before Python 3.12, and
    the child of a fork finds it taken by a thread that is not there.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute, self._name = compute, compute.__name__
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy_property[T] | T:
        if instance is None:
            return self
        values: dict[str, T] = instance.__dict__
        return values.setdefault(self._name, self._compute(instance))


@contextmanager
def paused_collection() -> Iterator[None]:
    """Keep Python from looking for cycles inside the `with` block.

    A program is a graph without cycles that grows by hundreds of thousands of nodes: going over all
    of them again and again takes a quarter of a compilation and frees nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

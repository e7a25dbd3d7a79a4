"""Locks where the process forks; the search for cycles is off inside the block, and afterwards as
it was.
"""

from __future__ import annotations

import gc
import os
import signal
import threading

import pytest

from relayvm.base.process import RenewedLock, lazy_property, llvm_lock, paused_collection


def _status_of_child(work) -> int:
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that waits for a lock
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_renewed_lock_is_free_in_a_child_whoever_held_it() -> None:
    lock, held, stop = RenewedLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock.held():
            held.set()
            stop.wait()

    def take() -> int:
        with lock.held():
            return 0

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert _status_of_child(take) == 0
    finally:
        stop.set()
        thread.join()
    assert take() == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_what_llvm_does() -> None:
    held, ended = threading.Event(), []

    def hold() -> None:
        with llvm_lock:
            held.set()
            sum(range(1_000_000))
            ended.append(True)

    def take() -> int:
        with llvm_lock:
            return 0 if ended else 1

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert _status_of_child(take) == 0
    thread.join()


def test_who_holds_it_may_fork() -> None:
    def take() -> int:
        with llvm_lock:
            return 0

    with llvm_lock:
        assert _status_of_child(take) == 0


class Slow:
    """Has a property whose first computation anywhere lasts until it is told to end."""

    begun, ends = threading.Event(), threading.Event()
    computed = 0

    @lazy_property
    def value(self) -> object:
        """Some object."""
        Slow.computed += 1
        if not Slow.begun.is_set():
            Slow.begun.set()
            Slow.ends.wait()
        return object()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_while_a_property_is_computed_leaves_the_child_able_to() -> None:
    slow, found = Slow(), []
    thread = threading.Thread(target=lambda: found.append(slow.value))
    thread.start()
    Slow.begun.wait()
    try:
        assert _status_of_child(lambda: Slow().value is None or slow.value is None) == 0
        first = slow.value
    finally:
        Slow.ends.set()
        thread.join()
    assert found == [first]  # not what the thread computed, which came later
    computed = Slow.computed
    assert slow.value is first
    assert Slow.computed == computed
    assert Slow.value.__doc__ == "Some object."


def test_the_search_is_off_inside_and_on_again_after() -> None:
    assert gc.isenabled()
    with paused_collection():
        assert not gc.isenabled()
        with paused_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_exception_turns_it_on_again() -> None:
    with pytest.raises(ValueError, match="inside"), paused_collection():
        raise ValueError("inside")
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with paused_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

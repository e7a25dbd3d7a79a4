"""Recursion without Python's stack: recursive functions written as generators, run by a loop."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Recursive = Generator["Recursive[Any]", Any, T]


def trampoline(start: Recursive[T]) -> T:
    """Return the result of a generator that yields the generators it calls and is sent their
    results.

    `value = yield visit(child)` is a call: depth is bounded by memory, not by Python's recursion
    limit. An exception unwinds through the waiting generators as it would through calls.
    """
    stack: list[Recursive[Any]] = [start]
    value: Any = None
    raised: Exception | None = None
    while stack:
        try:
            call = stack[-1].send(value) if raised is None else stack[-1].throw(raised)
        except StopIteration as stop:
            stack.pop()
            value, raised = stop.value, None
        except Exception as reason:
            stack.pop()
            if not stack:
                raise
            raised = reason
        else:
            stack.append(call)
            value, raised = None, None
    result: T = value
    return result

"""Room for functors of users, which call themselves for every level of an expression."""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable
from typing import Any

from relayvm.ir.expr import Expr
from relayvm.ir.visit import children, post_order

# Frames that a level of an expression may take: `visit`, the method for the node, and what these
# call.
FRAMES_PER_LEVEL = 12
SPARE_FRAMES = 1_000
# Up to here Python's own stack is enough.
SHALLOW = 50
# From 3.11 on, calls of Python functions take no room on the stack of C, but generators, `super()`
# and calls by way of C do: so much for a level, which only what is used of it takes from memory.
STACK_PER_LEVEL_BYTES = 8_192
MAX_STACK_BYTES = 1 << 32


def depth_of(expr: Expr) -> int:
    """Return the number of nodes on the longest path down from an expression."""
    depths: dict[int, int] = {}
    for node in post_order(expr):
        depths[id(node)] = 1 + max((depths[id(child)] for child in children(node)), default=0)
    return depths[id(expr)]


def with_room(depth: int, run: Callable[[], Any]) -> Any:
    """Return what `run` returns, with a stack for recursion as deep as an expression of `depth`."""
    frames = depth * FRAMES_PER_LEVEL + SPARE_FRAMES
    limit = sys.getrecursionlimit()
    if depth <= SHALLOW or frames <= limit:
        return run()
    sys.setrecursionlimit(limit + frames)
    try:
        return _in_thread(min(depth * STACK_PER_LEVEL_BYTES, MAX_STACK_BYTES), run)
    finally:
        sys.setrecursionlimit(limit)


def _in_thread(stack_bytes: int, run: Callable[[], Any]) -> Any:
    """Return what `run` returns in a thread of its own with a large stack."""
    context = contextvars.copy_context()
    result: list[Any] = []
    failure: list[BaseException] = []

    def target() -> None:
        try:
            result.append(context.run(run))
        except BaseException as reason:
            failure.append(reason)

    old = threading.stack_size(max(stack_bytes, 1 << 20))
    try:
        thread = threading.Thread(target=target)
        thread.start()
    finally:
        threading.stack_size(old)
    thread.join()
    if failure:
        raise failure[0]
    return result[0]

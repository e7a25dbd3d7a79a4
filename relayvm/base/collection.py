"""Pausing the search for cycles of objects while very many are made that form none."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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

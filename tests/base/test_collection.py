"""The search for cycles is off inside the block, and afterwards as it was."""

from __future__ import annotations

import gc

import pytest

from relayvm.base.collection import paused_collection


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

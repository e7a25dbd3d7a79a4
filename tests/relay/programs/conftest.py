"""Tests that ask for `target` and `dev` get them as they did from TVM's plugin."""

from relayvm.testing.plugin import pytest_generate_tests

__all__ = ["pytest_generate_tests"]

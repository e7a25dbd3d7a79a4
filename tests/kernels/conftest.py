"""Faults that schedules survive are failures of these tests, unless a test asks for one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_hidden_faults(request, caplog):
    yield
    if "monkeypatch" not in request.fixturenames:
        assert "is not scheduled" not in caplog.text

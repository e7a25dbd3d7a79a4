"""Error codes and settings: every row is used, every use has a row."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relayvm.base.abi import TRAP_CODES, TrapCode
from relayvm.base.diagnostics import Diagnostic, InternalError
from relayvm.base.dtypes import DTYPES
from relayvm.base.error_codes import ERROR_CODES
from relayvm.base.settings import SETTINGS

ROOT = Path(__file__).parents[2]
TEXTS = {
    p: p.read_text()
    for suffix in ("*.py", "*.c", "*.h")
    for p in (ROOT / "relayvm").rglob(suffix)
    if p.name != "error_codes.py"
}


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
def test_every_error_code_is_used(code: str) -> None:
    assert any(f'"{code}"' in text for text in TEXTS.values())


@pytest.mark.parametrize("code", sorted(ERROR_CODES))
def test_every_error_code_is_explained(code: str) -> None:
    text = ERROR_CODES[code]
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
    assert len(text.split()) >= 12, "say what it means and the way out"


def test_a_code_without_a_row_is_a_fault_of_ours() -> None:
    with pytest.raises(InternalError):
        Diagnostic("no-such-code", "message")


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_is_read(name: str) -> None:
    assert any(name in text for path, text in TEXTS.items() if path.name != "settings.py")


def test_the_environment_is_read_in_one_place() -> None:
    for path, text in TEXTS.items():
        # The second hands it on to a process.
        is_home = path.name in ("settings.py", "native_compile.c")
        assert is_home or not re.search(r"\benviron\b|\bgetenv\b", text), path


def test_every_trap_has_a_diagnostic() -> None:
    assert set(TRAP_CODES) == set(TrapCode) - {TrapCode.NONE}
    assert {code for code, _ in TRAP_CODES.values()} <= set(ERROR_CODES)


def test_dtype_rows_have_names_of_their_own() -> None:
    for column in ("name", "code", "short"):
        assert len({getattr(row, column) for row in DTYPES}) == len(DTYPES)

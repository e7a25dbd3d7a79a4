"""The import contract holds, and would notice a breach."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINT = Path(sys.executable).with_name("lint-imports")


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LINT, "--no-logo", "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "relayvm", tmp_path / "relayvm", ignore=shutil.ignore_patterns("__pycache__", "*.so")
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


@pytest.mark.slow
def test_imports_point_down_only() -> None:
    result = lint(ROOT)
    assert result.returncode == 0, result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "statement", "contract"),
    [
        ("vm/breach.py", "import relayvm.ir", "imports point down only"),
        ("kernels/breach.py", "import relayvm.vm", "imports point down only"),
        ("ops/breach.py", "import relayvm.compiler", "imports point down only"),
        ("vm/breach.py", "import llvmlite", "llvmlite is known in two places"),
        ("vm/breach.py", "import cffi", "cffi is known in one place"),
    ],
)
def test_a_breach_is_noticed(copy: Path, place: str, statement: str, contract: str) -> None:
    (copy / "relayvm" / place).write_text(f'"""Breach."""\n{statement}\n')
    result = lint(copy)
    assert result.returncode != 0
    assert f"{contract} BROKEN" in " ".join(result.stdout.split())

"""The golden-file fixture: compares text with a file, or rewrites it with --update-golden."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

RULE = "// ----\n"

# HYPOTHESIS_PROFILE picks how many examples: `dev` (default), `ci` or `long`.
COMMON = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "database": None,
}
settings.register_profile("dev", max_examples=30, derandomize=True, **COMMON)
settings.register_profile("ci", max_examples=200, derandomize=True, **COMMON)
settings.register_profile("long", max_examples=5000, **COMMON)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite golden files with what the program gives now",
    )


@dataclass(frozen=True)
class Golden:
    """Compares what a program gives with what a file says."""

    update: bool

    def check(self, path: Path, actual: str) -> None:
        """Compare with the whole file."""
        expected = path.read_text(encoding="utf-8") if path.exists() else ""
        if self.update and expected != actual:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        assert actual == expected, f"{path} differs; `pytest --update-golden` rewrites it"

    def check_case(self, path: Path, actual: str) -> None:
        """Compare with the part after the line `// ----`; the input before it stays as it is."""
        self.check(path, self.case_input(path) + RULE + actual)

    @staticmethod
    def case_input(path: Path) -> str:
        """Return the part of a case before the line `// ----`."""
        return path.read_text(encoding="utf-8").split(RULE)[0]


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(request.config.getoption("--update-golden"))

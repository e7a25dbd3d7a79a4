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


# Files that take long, the longest first. `make test` hands out whole files, and these before all
# others: one that is begun last keeps a core busy while the others have nothing left.
LONGEST = (
    "ops/test_operators_on_the_machine.py",
    "kernels/test_operator_schedules.py",
    "stress/test_variants.py",
    "packaging/test_benchmarks.py",
    "ops/test_every_operator.py",
    "packaging/test_without_compiler.py",
    "packaging/test_c_library.py",
    "fuzz/test_loader_fuzz.py",
    "kernels/test_schedule.py",
    "property/test_machine.py",
    "property/test_passes_keep_meaning.py",
    "ops/test_long_rounds.py",
    "ops/test_region_gradients.py",
    "kernels/test_generated_nests.py",
    "property/test_special_values.py",
    "property/test_effects.py",
    "property/test_programs.py",
    "fuzz/test_parser_fuzz.py",
    "property/test_compiled_programs.py",
    "kernels/test_joins.py",
    "kernels/test_contraction_bits.py",
    "compiler/test_doubling_types.py",
)


def pytest_configure(config: pytest.Config) -> None:
    # pytest-xdist would begin with the files of most tests, however little these take.
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {f"tests/{name}": k for k, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.partition("::")[0], len(LONGEST)))


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

"""The sources are valid for Python 3.10, the oldest version supported."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("relayvm", "tests", "bench", "examples")
SOURCES = sorted(p for folder in FOLDERS for p in (ROOT / folder).rglob("*.py"))

# What the standard library has from 3.11 on: modules, and names by module.
NEW_MODULES = {"tomllib", "annotationlib", "compression", "string.templatelib", "pathlib.types"}
NEW_NAMES = {
    "asyncio": {"TaskGroup", "Runner", "timeout", "Barrier"},
    "collections.abc": {"Buffer"},
    "contextlib": {"chdir"},
    "copy": {"replace"},
    "datetime": {"UTC"},
    "enum": {"StrEnum", "ReprEnum", "EnumCheck", "verify", "member", "nonmember", "CONTINUOUS"},
    "hashlib": {"file_digest"},
    "inspect": {"getmembers_static", "markcoroutinefunction"},
    "itertools": {"batched"},
    "logging": {"getLevelNamesMapping", "getHandlerByName"},
    "math": {"cbrt", "exp2", "sumprod", "fma"},
    "operator": {"call"},
    "os": {"process_cpu_count"},
    "typing": {
        "assert_never",
        "assert_type",
        "LiteralString",
        "Never",
        "NotRequired",
        "override",
        "ReadOnly",
        "Required",
        "reveal_type",
        "Self",
        "TypeAliasType",
        "TypeVarTuple",
        "Unpack",
        "get_protocol_members",
        "is_protocol",
    },
    "warnings": {"deprecated"},
}
NEW_BUILTINS = {"ExceptionGroup", "BaseExceptionGroup", "PythonFinalizationError"}
NEW_ATTRIBUTES = re.compile(r"\.(add_note|walk_up|full_match|copy_into|__type_params__)\b")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_sources_are_valid_for_python_3_10(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path), feature_version=(3, 10))
    assert not list(newer_names(tree))
    assert path == Path(__file__) or not NEW_ATTRIBUTES.search(text)


def newer_names(tree: ast.AST):
    """Yield names of the standard library that came after 3.10, but under a version check."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                yield from (a.name for a in names if a.name in NEW_MODULES)
            case ast.ImportFrom(module=str(module), names=names):
                if module in NEW_MODULES:
                    yield module
                yield from (a.name for a in names if a.name in NEW_NAMES.get(module, ()))
            case ast.Attribute(value=ast.Name(id=module), attr=name):
                if name in NEW_NAMES.get(module, ()):
                    yield f"{module}.{name}"
            case ast.Name(id=name) if name in NEW_BUILTINS:
                yield name


@pytest.mark.parametrize(
    "text",
    ["from typing import Self", "import tomllib", "import enum\nenum.StrEnum", "ExceptionGroup"],
)
def test_a_newer_name_is_noticed(text: str) -> None:
    assert list(newer_names(ast.parse(text)))


@pytest.mark.parametrize(
    "text", ["type A = int", "def f[T](x: T): ...", "try: f()\nexcept* A: g()"]
)
def test_newer_grammar_is_noticed(text: str) -> None:
    with pytest.raises(SyntaxError):
        ast.parse(text, feature_version=(3, 10))

"""What users import: every public name exists, has a docstring, and stands in the snapshot."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import FunctionType

import pytest

import relayvm
from relayvm.base.process import lazy_property

SNAPSHOT = Path(__file__).with_name("public_names.txt")
# Classes whose objects users make themselves.
CONSTRUCTED = {"VirtualMachine", "Target"}


def signatures() -> str:
    lines = []
    for name in sorted(relayvm.__all__):
        value = getattr(relayvm, name)
        callable_ = inspect.isfunction(value) or name in CONSTRUCTED
        lines.append(f"{name}{inspect.signature(value) if callable_ else ''}")
        if inspect.isclass(value):
            members = {m: v for m, v in vars(value).items() if not m.startswith("_")}
            lines += [f"    {m}{_shown(v)}" for m, v in sorted(members.items())]
    return "\n".join(lines) + "\n"


def _shown(member: object) -> str:
    return str(inspect.signature(member)) if inspect.isfunction(member) else ""


def test_public_names_change_on_purpose_only(golden) -> None:
    golden.check(SNAPSHOT, signatures())


@pytest.mark.parametrize("name", sorted(set(relayvm.__all__) - {"__version__"}))
def test_every_public_name_has_a_docstring(name: str) -> None:
    value = getattr(relayvm, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value):
        kinds = (FunctionType, classmethod, staticmethod, property, lazy_property)
        for member, function in vars(value).items():
            if isinstance(function, kinds) and not member.startswith("_"):
                assert inspect.getdoc(function), f"{name}.{member}"


def test_an_unknown_name_says_so() -> None:
    with pytest.raises(AttributeError, match="no attribute `nonsense`"):
        relayvm.nonsense


def test_dir_lists_public_names() -> None:
    assert set(relayvm.__all__) <= set(dir(relayvm))

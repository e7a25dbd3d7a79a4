"""Every name of TVM that Relay programs use is here with the same parameters, or is left out for a
reason.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import relayvm
from relayvm import relay
from relayvm.relay.homes import HOMES
from relayvm.relay.lazy import LEFT_OUT as LEFT_OUT_FILE
from relayvm.relay.lazy import left_out

NAMES = Path(__file__).with_name("names.txt")
MOST_LEFT_OUT = 0.05


@dataclass(frozen=True)
class Name:
    """One line: a dotted name, and its parameters as text where it is a callable."""

    path: str
    parameters: str | None

    def __str__(self) -> str:
        return self.path


def names() -> Iterator[Name]:
    for line in NAMES.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            path, paren, rest = line.partition("(")
            yield Name(path, rest.rpartition(")")[0] if paren else None)


ALL = list(names())
LEFT_OUT = left_out()
LEFT_OUT_TEXT = LEFT_OUT_FILE.read_text(encoding="utf-8")


def reason(path: str) -> str | None:
    """Return why a name is left out: itself, or what it is inside of."""
    words = path.split(".")
    parts = (".".join(words[:n]) for n in range(len(words), 0, -1))
    rows = ((row, why) for p in parts for row, why in LEFT_OUT.items() if covers(row, p))
    return next((why for _, why in rows), None)


def covers(row: str, path: str) -> bool:
    return fnmatchcase(path, row) or fnmatchcase(path.replace("relay.op.", "relay."), row)


KEPT = [name for name in ALL if reason(name.path) is None]


def found(path: str) -> Any:
    value: Any = relayvm
    place = "relayvm"
    for word in path.split("."):
        place = f"{place}.{word}"
        try:
            value = getattr(value, word)
        except AttributeError:
            try:
                value = import_module(place)
            except ModuleNotFoundError:
                raise AttributeError(f"there is no `{place}`") from None
    return value


def test_a_name_stands_once():
    paths = [name.path for name in ALL]
    assert len(paths) == len(set(paths)) > 600


@pytest.mark.parametrize("name", KEPT, ids=str)
def test_a_name_is_here_with_the_parameters_of_the_original(name):
    value = found(name.path)
    if name.parameters is not None:
        assert callable(value)
        assert differences(name, value) == []


def test_names_are_found_before_anything_else_is_imported():
    code = f"""
import runpy
space = runpy.run_path({__file__!r})
for name in space["KEPT"]:
    space["found_by_attributes"](name.path)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def differences(name: Name, value: Any) -> list[str]:
    """Return how the parameters differ; ours may have defaults where the original has none,
    and take more by keyword.
    """
    wanted = list(signature_of(name.parameters or "").parameters.values())
    given = list(inspect.signature(value).parameters.values())
    if given and given[0].name == "self" and not (wanted and wanted[0].name == "self"):
        given = given[1:]
    told = []
    for index, parameter in enumerate(wanted):
        if parameter.name == "self" and index < len(given):
            continue
        if index >= len(given) or given[index].name != parameter.name:
            mine = given[index].name if index < len(given) else "nothing"
            told.append(f"`{parameter.name}` is `{mine}`")
        elif parameter.default is not parameter.empty and not same_default(
            parameter.default, given[index].default
        ):
            told.append(f"`{parameter.name}` is {given[index].default!r} by default")
    extra = given[len(wanted) :]
    kinds = (
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    told += [f"`{p.name}` is not in the original" for p in extra if p.kind not in kinds]
    return told


def signature_of(parameters: str) -> inspect.Signature:
    """Return the signature that a text describes; `<function>` is any default."""
    text = f"lambda {parameters.replace('<function>', 'ANYTHING')}: None"
    ast.parse(text, mode="eval")
    known = {
        "TypeKind": relay.TypeKind,
        "Executor": relay.backend.Executor,
        "Runtime": relay.backend.Runtime,
        "Target": relayvm.target.Target,
        "cpu": relayvm.cpu,
        "ANYTHING": ANYTHING,
    }
    return inspect.signature(eval(text, known))


ANYTHING = object()


def same_default(wanted: Any, given: Any) -> bool:
    if wanted is ANYTHING:
        return given is not inspect.Parameter.empty
    if isinstance(wanted, (list, tuple)) and isinstance(given, (list, tuple)):
        return list(wanted) == list(given)
    return (type(wanted) is type(given) and wanted == given) or str(wanted) == str(given)


# --- what is left out ------------------------------------------------------------------------


def test_a_reason_is_told_only_for_names_that_are_not_there():
    paths = [name.path for name in ALL]
    listed, beyond = LEFT_OUT_TEXT.split("# Beyond")
    for row, why in LEFT_OUT.items():
        assert len(why.split()) >= 3, row
        if f"\n{row}: " in listed:
            assert any(covers(row, p) or p.startswith(f"{row}.") for p in paths), row
        else:
            assert f"\n{row}: " in beyond
            with pytest.raises(AttributeError, match=re.escape(why)):
                found_by_attributes(row.replace("*", "some"))


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_name_has_a_home_that_holds_it(name):
    assert getattr(relay, name) is not None


def test_few_names_of_relay_are_left_out():
    of_relay = [name.path for name in ALL if name.path.startswith("relay.")]
    missing = [path for path in of_relay if reason(path) is not None]
    assert len(missing) <= MOST_LEFT_OUT * len(of_relay)


@pytest.mark.parametrize("path", [name.path for name in ALL if reason(name.path) is not None])
def test_a_name_that_is_left_out_says_why(path):
    with pytest.raises(AttributeError, match=r".") as raised:
        found_by_attributes(path)
    assert any(why in str(raised.value) for why in LEFT_OUT.values())


def found_by_attributes(path: str) -> Any:
    value: Any = relayvm
    for word in path.split("."):
        value = getattr(value, word)
    return value


STARS = sorted({name.path.rpartition(".")[0] for name in ALL if name.path.startswith("relay.")})


@pytest.mark.parametrize("path", STARS)
def test_a_star_import_gives_what_attributes_give(path: str) -> None:
    module: Any = relayvm
    for word in path.split("."):
        module = getattr(module, word, None)
    if not inspect.ismodule(module):
        return  # a class, or left out
    own = [n.path for n in ALL if n.path.rpartition(".")[0] == path]
    public = {word for word in (p.rpartition(".")[2] for p in own) if not word.startswith("_")}
    found: dict[str, Any] = {}
    exec(f"from {module.__name__} import *", found)
    assert public - set(found) == {name for name in public if not hasattr(module, name)}
    assert all(found[name] is getattr(module, name) for name in public & set(found))


@pytest.mark.parametrize("module", [relay, relay.testing])
def test_names_found_at_first_use_are_listed(module: Any) -> None:
    assert set(module.__all__) <= set(dir(module))
    assert {"transform", "add"} <= set(dir(relay))
    assert {"mlp", "check_grad"} <= set(dir(relay.testing))
    assert not [name for name in module.__all__ if not hasattr(module, name)]

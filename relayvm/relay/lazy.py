"""Names that are found at first use, and the reason where one is left out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

# What modules hold for themselves.
_PYTHON = frozenset({"annotations", "lazy_names", "listing"})
LEFT_OUT = Path(__file__).with_name("left_out.txt")


def lazy_names(
    package: str, homes: Mapping[str, str], fallbacks: Sequence[str] = (), top: str = ""
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which users know as `top`. It finds `__all__` too,
    so that `import *` gives all names that the package has.

    `homes` maps names to modules, to `"module:name"` where the name there is another, and to
    `"module:"` where the module itself is meant. Other names are modules of the package, or are
    looked up in the modules `fallbacks`.
    """

    def find(name: str) -> Any:
        if name == "__all__":
            return listed(package, homes, fallbacks, top)
        if name in homes:
            value = _found(homes[name], name)
        elif name.startswith("__"):
            raise AttributeError(f"module `{package}` has no attribute `{name}`")
        elif not top and find_spec(f"{package}.{name}") is not None:
            value = import_module(f"{package}.{name}")
        else:
            value = _in_fallbacks(top or package, fallbacks, name, homes)
        if package in sys.modules:
            setattr(sys.modules[package], name, value)
        return value

    return find


def listed(
    package: str, homes: Iterable[str], fallbacks: Sequence[str] = (), top: str = ""
) -> list[str]:
    """Return the public names of a package whose `__getattr__` is that of `lazy_names`: those it
    holds, those that are found at first use, and its modules.
    """
    found = {*homes, *vars(sys.modules[package])} if package in sys.modules else {*homes}
    if not top and package in sys.modules:
        found.update(m.name for m in iter_modules(sys.modules[package].__path__))
    for home in fallbacks:
        if find_spec(home) is not None:
            found.update(public_names(import_module(home)))
    return sorted(name for name in found if not name.startswith("_") and name not in _PYTHON)


def listing(
    package: str, homes: Iterable[str], fallbacks: Sequence[str] = ()
) -> Callable[[], list[str]]:
    """Return the `__dir__` of a package whose `__getattr__` is that of `lazy_names`."""
    return lambda: [*vars(sys.modules[package]), *listed(package, homes, fallbacks)]


def public_names(module: Any) -> list[str]:
    """Return the names that `import *` takes from a module."""
    return getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]


def _found(home: str, name: str) -> Any:
    module, colon, inside = home.partition(":")
    found = import_module(module)
    return found if colon and not inside else getattr(found, inside or name)


def _in_fallbacks(package: str, fallbacks: Sequence[str], name: str, homes: Iterable[str]) -> Any:
    known = set(homes)
    for home in fallbacks:
        if find_spec(home) is not None:
            module = import_module(home)
            if hasattr(module, name):
                return getattr(module, name)
            known.update(dir(module))
    raise missing(package, name, known)


def absent(package: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a module that holds all of its names, known to users as
    `package`: it says why a name is left out.
    """

    def find(name: str) -> Any:
        raise missing(package, name)

    return find


def missing(package: str, name: str, known: Iterable[str] = ()) -> AttributeError:
    """Return the error for a name that is not there: with the reason if it is left out, else with
    the names most like it, of those that the package holds and of `known`.
    """
    why = reason_of(f"{package.removeprefix('relayvm')}.{name}".lstrip("."))
    told = f": {why}" if why else _near(package, name, known)
    return AttributeError(f"module `{package}` has no attribute `{name}`{told}")


def _near(package: str, name: str, known: Iterable[str]) -> str:
    if name.startswith("_"):
        return ""
    names = sorted({n for n in (*_held(package), *known) if not n.startswith("_")})
    near = get_close_matches(name[:80], names, 3, 0.7)
    return f"; did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""


def _held(package: str) -> list[str]:
    """Return the names in a package, which may be loaded under another name than users know."""
    first, *rest = package.split(".")
    module: Any = sys.modules.get(first)
    for part in rest:
        module = vars(module).get(part) if module is not None else None
    return dir(module) if module is not None else []


def reason_of(path: str) -> str | None:
    """Return why a name of TVM is left out: by its own row, by that of all the names like it, or
    because all that is known inside of it is left out.
    """
    paths = {path, path.replace("relay.op.", "relay.")}
    rows = left_out().items()
    own = (why for row, why in rows if any(fnmatchcase(p, row) for p in paths))
    inside = (why for row, why in rows if row.startswith(f"{path}."))
    return next(own, None) or next(inside, None)


@cache
def left_out() -> dict[str, str]:
    """Return what is left out of TVM's names, each with the reason. In a name `*` stands for any
    letters.
    """
    lines = LEFT_OUT.read_text(encoding="utf-8").splitlines()
    rows = (line.partition(": ") for line in lines if line and not line.startswith("#"))
    return {name: reason for name, _, reason in rows}

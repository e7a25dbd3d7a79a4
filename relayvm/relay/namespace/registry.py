"""Functions by name, for programs that register and look up their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from relayvm.base.diagnostics import Diagnostic, RelayError, error

_functions: dict[str, Callable[..., Any]] = {}


class UnknownFunction(RelayError, ValueError):
    """No function has the name."""


def register_func(func_name: Any, f: Any = None, override: bool = False) -> Any:
    """Name a function; without one, a decorator. Nothing here calls functions by their names."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if not isinstance(func_name, str):
        raise ValueError("expect string function name")

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        if func_name in _functions and not override:
            raise error("duplicate-name", f"a function is named `{func_name}` already")
        _functions[func_name] = function
        return function

    return register if f is None else register(f)


def get_global_func(name: str, allow_missing: bool = False) -> Any:
    """Return a function that was named, or None where it may be missing.

    Raises RelayError `unknown-function`, which is a ValueError too.
    """
    if name not in _functions and not allow_missing:
        message = f"no function is named `{name}`: TVM's own global functions are not here"
        raise UnknownFunction(Diagnostic("unknown-function", message))
    return _functions.get(name)

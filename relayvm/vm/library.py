"""The compiled runtime as `ffi` and `lib`: finds the extension module, or says how to build it.

Keeps what Python functions raise that it calls.
"""

from __future__ import annotations

import importlib
import threading
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.settings import setting


def _load() -> tuple[Any, Any]:
    """Import the build that the setting names; raises RelayError `runtime-not-built`."""
    variant = str(setting("RELAYVM_RUNTIME"))
    name = f"_runtime_{variant}" if variant else "_runtime"
    try:
        module = importlib.import_module(f"relayvm.vm.{name}")
        return module, _second(str(module.__file__))
    except ImportError as reason:
        option = f" --{variant}" if variant else ""
        raise error(
            "runtime-not-built",
            f"the compiled runtime `relayvm.vm.{name}` cannot be imported: {reason}",
            help=f"build it with `python -m relayvm.vm.runtime.build{option}`",
        ) from None


def _second(path: str) -> Any:
    """Return the module `calls` that the same file holds."""
    loader = ExtensionFileLoader("relayvm.vm.calls", path)
    module = loader.create_module(ModuleSpec("relayvm.vm.calls", loader, origin=path))
    loader.exec_module(module)
    return module


_module, calls = _load()
ffi: Any = _module.ffi
lib: Any = _module.lib


_lost: dict[int, BaseException] = {}  # by thread


def keep_exception(kind: Any, exception: BaseException, traceback: Any) -> None:
    """Keep what a callback raised, for the call that this thread is in."""
    _lost[threading.get_ident()] = exception


def lost_exception() -> BaseException | None:
    """Return what a callback of this thread raised since the last question."""
    return _lost.pop(threading.get_ident(), None)

"""The compiled runtime as `ffi` and `lib`: finds the extension module, or says how to build it."""

from __future__ import annotations

import importlib
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.settings import setting


def _load() -> Any:
    """Import the build that the setting names; raises RelayError `runtime-not-built`."""
    variant = str(setting("RELAYVM_RUNTIME"))
    name = f"_runtime_{variant}" if variant else "_runtime"
    try:
        return importlib.import_module(f"relayvm.vm.{name}")
    except ImportError as reason:
        option = f" --{variant}" if variant else ""
        raise error(
            "runtime-not-built",
            f"the compiled runtime `relayvm.vm.{name}` cannot be imported: {reason}",
            help=f"build it with `python -m relayvm.vm.runtime.build{option}`",
        ) from None


_module = _load()
ffi: Any = _module.ffi
lib: Any = _module.lib

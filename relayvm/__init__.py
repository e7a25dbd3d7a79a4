"""RelayVM: a compiler and bytecode machine for Relay, a functional tensor language."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayvm.base.diagnostics import InternalError as InternalError
    from relayvm.base.diagnostics import RelayError as RelayError
    from relayvm.base.diagnostics import Trap as Trap
    from relayvm.base.target import Target as Target
    from relayvm.compiler.api import compile as compile
    from relayvm.compiler.api import load as load
    from relayvm.compiler.api import parse as parse
    from relayvm.compiler.api import save_text as save_text
    from relayvm.ir.module import Module as Module
    from relayvm.vm.executable import Executable as Executable
    from relayvm.vm.machine import VirtualMachine as VirtualMachine
    from relayvm.vm.values import DataValue as DataValue

__version__ = "0.1.0"

logging.getLogger("relayvm").addHandler(logging.NullHandler())

# Where each public name lives; imported at first use, so that `import relayvm` stays light.
_HOMES = {
    "parse": "relayvm.compiler.api",
    "compile": "relayvm.compiler.api",
    "load": "relayvm.compiler.api",
    "save_text": "relayvm.compiler.api",
    "Module": "relayvm.ir.module",
    "Executable": "relayvm.vm.executable",
    "VirtualMachine": "relayvm.vm.machine",
    "DataValue": "relayvm.vm.values",
    "Target": "relayvm.base.target",
    "RelayError": "relayvm.base.diagnostics",
    "Trap": "relayvm.base.diagnostics",
    "InternalError": "relayvm.base.diagnostics",
}

# TVM's names at this level, for programs that came from there; see `relayvm/relay`.
_TVM_HOMES = {
    "IRModule": "relayvm.relay.module",
    "cpu": "relayvm.relay.ndarray",
    "cuda": "relayvm.relay.ndarray",
    "device": "relayvm.relay.ndarray",
}

__all__ = [*sorted(_HOMES), "__version__"]  # noqa: PLE0604 - the names are strings


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name) or _TVM_HOMES.get(name)
    if home is None:
        raise AttributeError(f"module `relayvm` has no attribute `{name}`")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

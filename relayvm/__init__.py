"""RelayVM: a compiler and bytecode machine for Relay, a functional tensor language."""

from __future__ import annotations

import logging
import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relayvm.base import __version__ as __version__
    from relayvm.base.diagnostics import InternalError as InternalError
    from relayvm.base.diagnostics import RelayError as RelayError
    from relayvm.base.diagnostics import Trap as Trap
    from relayvm.base.target import Target as Target
    from relayvm.compiler.api import compile as compile
    from relayvm.compiler.api import parse as parse
    from relayvm.compiler.api import save_text as save_text
    from relayvm.ir.module import Module as Module
    from relayvm.loading import load as load
    from relayvm.vm.executable import Executable as Executable
    from relayvm.vm.machine import VirtualMachine as VirtualMachine
    from relayvm.vm.values import DataValue as DataValue


logging.getLogger("relayvm").addHandler(logging.NullHandler())

# Where each public name lives; imported at first use, so that `import relayvm` stays light.
_HOMES = {
    "__version__": "relayvm.base",
    "parse": "relayvm.compiler.api",
    "compile": "relayvm.compiler.api",
    "load": "relayvm.loading",
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
    "ext_dev": "relayvm.relay.ndarray",
    "gpu": "relayvm.relay.namespace.nd",
    "hexagon": "relayvm.relay.ndarray",
    "metal": "relayvm.relay.ndarray",
    "opencl": "relayvm.relay.ndarray",
    "rocm": "relayvm.relay.ndarray",
    "vpi": "relayvm.relay.ndarray",
    "vulkan": "relayvm.relay.ndarray",
    "TVMError": "relayvm.relay.namespace.error",
    "register_func": "relayvm.relay.namespace.registry",
    "get_global_func": "relayvm.relay.namespace.registry",
}

# TVM's modules at this level, which can be imported too: `import relayvm.testing`.
_TVM_MODULES = {
    "nd": "nd",
    "transform": "transform",
    "instrument": "instrument",
    "target": "target",
    "testing": "testing",
    "testing.plugin": "testing_plugin",
    "error": "error",
    "runtime": "runtime",
    "runtime.vm": "runtime_vm",
    "runtime.profiler_vm": "profiler_vm",
    "runtime.profiling": "profiling",
    "runtime.module": "runtime_module",
    "runtime.container": "container",
    "runtime.ndarray": "nd",
    "container": "container",
    "tir": "tir",
    "te": "te",
    "contrib": "contrib",
    "contrib.cudnn": "contrib_cudnn",
    "contrib.nvcc": "contrib_nvcc",
    "contrib.utils": "contrib_utils",
    "target.codegen": "target_codegen",
    "topi": "topi",
    "topi.utils": "topi_utils",
    "_ffi": "ffi",
    "_ffi.base": "error",
    "ir.transform": "transform",
    "ir.instrument": "instrument",
}


class _Aliases(MetaPathFinder, Loader):
    """Finds TVM's modules under the names that its programs import."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        """Return how to load one of TVM's modules."""
        known = fullname.removeprefix("relayvm.") in _TVM_MODULES
        return ModuleSpec(fullname, self) if known else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, which stays what it is under its own name."""
        module = _tvm_module(spec.name.removeprefix("relayvm."))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module back how it was found."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state


def _tvm_module(name: str) -> ModuleType:
    import_module("relayvm.relay")
    return import_module(f"relayvm.relay.namespace.{_TVM_MODULES[name]}")


sys.meta_path.append(_Aliases())

__all__ = [*sorted(_HOMES)]  # noqa: PLE0604 - the names are strings


def __getattr__(name: str) -> Any:
    if name in ("ir", "relay"):
        return import_module(f"relayvm.{name}")
    if name in _TVM_MODULES:
        value: Any = _tvm_module(name)
    elif home := _HOMES.get(name) or _TVM_HOMES.get(name):
        value = getattr(import_module(home), name)
    elif name.startswith("_"):
        raise AttributeError(f"module `relayvm` has no attribute `{name}`")
    else:
        known = (*_HOMES, *_TVM_HOMES, *_TVM_MODULES, "relay")
        raise import_module("relayvm.relay.lazy").missing("relayvm", name, known)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})

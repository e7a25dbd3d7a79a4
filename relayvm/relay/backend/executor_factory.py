"""What `relay.build` returns: a compiled program that makes modules for devices, by TVM's names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.loading import load
from relayvm.relay.backend.graph_module import GraphModule, tensors_of
from relayvm.relay.machine import CompiledLibrary, Executable, method_of
from relayvm.relay.ndarray import Device, NDArray
from relayvm.vm.manifest import Entry

ENTRY = "main"
# What a loaded module is asked for by name that is its executable's.
_OF_EXECUTABLE = (
    "get_late_bound_consts",
    "move_late_bound_consts",
    "load_late_bound_consts",
    "load_late_bound_consts_from_map",
)


class ExecutorFactoryModule:
    """A compiled program. `factory["default"](device)` makes a module that runs it.

    As in old programs it is also three things: `graph, lib, params = relay.build(...)`.
    """

    def __init__(
        self,
        executable: Executable,
        params: Mapping[str, NDArray] | None = None,
        ir_mod: Any = None,
        target: Any = None,
        libmod_name: str = "default",
    ) -> None:
        self.executable = executable
        self.params = dict(params or {})
        self.ir_mod = ir_mod
        self.target = target
        self.libmod_name = libmod_name

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if name in _OF_EXECUTABLE:
            return method_of(self.executable, name)
        if name not in (self.libmod_name, "default"):
            known = f"`{self.libmod_name}`"
            raise error("unknown-entry", f"the library has no module `{name}`; it has {known}")
        return self._create

    def _create(self, *device: Device) -> GraphModule:
        return GraphModule(self.executable, *device)

    def __iter__(self) -> Iterator[Any]:
        yield from (self.graph_json, self, self.params)

    @property
    def graph_json(self) -> str:
        """The entry with its inputs and results as JSON: nodes, heads and attributes."""
        entry = self.executable.native.manifest.entry(ENTRY)
        return graph_of(entry) if entry else "{}"

    def get_graph_json(self) -> str:
        """Return the entry with its inputs and results as JSON."""
        return self.graph_json

    get_executor_config = get_graph_json
    graph_json_str = graph_json

    @property
    def lib(self) -> CompiledLibrary:
        """The compiled code."""
        return self.executable.lib

    @property
    def module(self) -> ExecutorFactoryModule:
        """The module itself."""
        return self

    def get_lib(self) -> CompiledLibrary:
        """Return the compiled code."""
        return self.executable.lib

    def get_params(self) -> dict[str, NDArray]:
        """Return the parameters that were given to `relay.build`; the program holds them."""
        return dict(self.params)

    def export_library(
        self, file_name: str, fcompile: Any = None, addons: Any = None, **kwargs: Any
    ) -> None:
        """Write the program with its parameters and code to one file.

        The file is an executable of this machine, whatever its name ends in; `load_module` reads
        it. `fcompile` and other options for a linker mean nothing here.
        """
        self.executable.native.save(file_name)


GraphExecutorFactoryModule = ExecutorFactoryModule
AOTExecutorFactoryModule = ExecutorFactoryModule


def load_module(path: str, fmt: str = "") -> ExecutorFactoryModule:
    """Return the program that `export_library` wrote.

    Code in the file is compiled again unless this user's own cache holds it. Raises what
    `relayvm.load` raises.
    """
    return ExecutorFactoryModule(Executable(load(Path(path))))


def graph_of(entry: Entry) -> str:
    """Return the JSON of a graph of one node: the inputs of an entry, and its results."""
    inputs = entry.parameters
    results = tensors_of(entry.result)
    nodes: list[dict[str, Any]] = [{"op": "null", "name": p.name, "inputs": []} for p in inputs]
    nodes.append(
        {
            "op": "tvm_op",
            "name": entry.name,
            "attrs": {"num_inputs": str(len(inputs)), "num_outputs": str(len(results))},
            "inputs": [[i, 0, 0] for i in range(len(inputs))],
        }
    )
    values = [p.type for p in inputs] + results
    rows = [*range(len(inputs) + 1), len(values)]
    attrs = {
        "shape": [
            "list_shape",
            [[-1 if not isinstance(d, int) else d for d in v.dims] for v in values],
        ],
        "dltype": ["list_str", [v.dtype for v in values]],
        "storage_id": ["list_int", list(range(len(values)))],
    }
    graph = {
        "nodes": nodes,
        "arg_nodes": list(range(len(inputs))),
        "heads": [[len(inputs), i, 0] for i in range(len(results))],
        "attrs": attrs,
        "node_row_ptr": rows,
    }
    return json.dumps(graph, indent=2)

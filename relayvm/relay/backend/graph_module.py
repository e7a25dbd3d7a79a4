"""The graph executor's calls on the machine: `tvm.contrib.graph_executor`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.relay.lazy import absent
from relayvm.relay.machine import BenchmarkResult, Executable, entry_of, measure
from relayvm.relay.ndarray import Device, NDArray, as_ndarray
from relayvm.relay.values import ADT, to_argument, to_relay
from relayvm.vm.machine import VirtualMachine
from relayvm.vm.manifest import ValueType

ENTRY = "main"


class GraphModule:
    """A program ready to run: set inputs, run, take outputs. Dynamic shapes and control flow work
    as well.
    """

    def __init__(self, module: Any, *devices: Device) -> None:
        for device in devices:
            if isinstance(device, Device) and not device.exist:
                raise error("unknown-target", f"there is no device {device}")
        executable: Any = getattr(module, "executable", module)
        if not isinstance(executable, Executable):
            message = f"a graph runs what `relay.build` made, not a `{type(module).__name__}`"
            raise error("bad-option", message, help='`lib["default"](device)` makes a module')
        self.module = self
        self.executable = executable
        self._machine = VirtualMachine(executable.native)
        self._entry = entry_of(executable.native, ENTRY)
        self._names = [p.name for p in self._entry.parameters]
        self._values: dict[str, Any] = {}
        self._outputs: list[Any] | None = None
        self._bound_outputs: dict[int, np.ndarray] = {}

    # -- Inputs --------------------------------------------------------------------------------

    def set_input(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set one input by name or number, or several by name.

        Names that the program does not have are skipped where several are given, as parameters
        that were compiled in. Raises RelayError `wrong-argument` for a `key` that it lacks.
        """
        if key is not None:
            self._values[self._name(key)] = _copied(value)
        for name, given in params.items():
            if name in self._names:
                self._values[name] = _copied(given)

    def set_input_zero_copy(self, key: Any = None, value: Any = None, **params: Any) -> None:
        """Set inputs without a copy: later changes of the arrays are seen by later runs."""
        if key is not None:
            self._values[self._name(key)] = value
        self._values.update({n: v for n, v in params.items() if n in self._names})

    def set_output_zero_copy(self, key: int, value: Any) -> None:
        """Let runs write an output into an array too."""
        self._bound_outputs[int(key)] = value

    def _name(self, key: Any) -> str:
        if isinstance(key, str) and key in self._names:
            return key
        if isinstance(key, (int, np.integer)) and 0 <= key < len(self._names):
            return self._names[int(key)]
        known = ", ".join(f"`{n}`" for n in self._names) or "none"
        raise error("wrong-argument", f"the program has no input `{key}`; it has {known}")

    def get_num_inputs(self) -> int:
        """Return how many inputs a run takes; parameters that were compiled in are none."""
        return len(self._names)

    def get_input(self, index: Any, out: Any = None) -> NDArray | None:
        """Return an input that is set, by name or number; None where it is not."""
        value = self._values.get(self._name(index))
        if value is None:
            return None
        result: NDArray = _given(as_ndarray(value), out)
        return result

    def get_input_index(self, name: str) -> int:
        """Return the number of an input, -1 where there is none of the name."""
        return self._names.index(name) if name in self._names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Return the shape and the dtype of each input by name; -1 is a size of any length."""
        return _info({p.name: p.type for p in self._entry.parameters})

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set inputs from saved parameters; those that are compiled in are skipped."""
        from relayvm.relay.param_dict import load_param_dict

        self.set_input(**load_param_dict(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Take the values of saved parameters' names from another module, without copies."""
        from relayvm.relay.param_dict import load_param_dict

        for name in load_param_dict(params_bytes):
            if name in self._names and name in other._values:
                self._values[name] = other._values[name]

    # -- Runs ----------------------------------------------------------------------------------

    def run(self, **input_dict: Any) -> None:
        """Run the program with the inputs that are set, after setting those given.

        Raises RelayError `wrong-argument` where one is missing or of another type, and Trap.
        """
        if input_dict:
            self.set_input(**input_dict)
        result = to_relay(self._call(), self.executable.source)
        self._outputs = _flat(result)
        for index, place in self._bound_outputs.items():
            place[...] = np.asarray(self._outputs[index])

    def _call(self) -> Any:
        given = {name: to_argument(value) for name, value in self._values.items()}
        return self._machine.invoke(ENTRY, **given)

    def get_num_outputs(self) -> int:
        """Return how many outputs there are: the tensors of a tuple count one by one."""
        return len(tensors_of(self._entry.result))

    def get_output_index(self, name: str) -> int:
        """Return the number of an output; they are named `output_0`, `output_1` and so on."""
        names = [f"output_{i}" for i in range(self.get_num_outputs())]
        return names.index(name) if name in names else -1

    def get_output_info(self) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
        """Return the shape and the dtype of each output by name; -1 is a size of any length."""
        outputs = tensors_of(self._entry.result)
        return _info({f"output_{i}": type_ for i, type_ in enumerate(outputs)})

    def get_output(self, index: int, out: Any = None) -> Any:
        """Return an output of the last run; raises RelayError `not-ready` before it."""
        if self._outputs is None:
            raise error("not-ready", "there are no outputs before `run`")
        if not 0 <= index < len(self._outputs):
            message = f"there is no output {index}; there are {len(self._outputs)}"
            raise error("wrong-argument", message)
        return _given(self._outputs[index], out)

    def debug_get_output(self, node: Any, out: Any) -> Any:
        """Refuse: values inside kernels are not kept."""
        message = f"the value of node `{node}` is not kept: kernels hold several operators"
        help = "evaluate the expression with `relay.create_executor('debug')`"
        raise error("not-ready", message, help=help)

    def benchmark(
        self,
        device: Device | None = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Return the seconds that a run takes, `repeat` means of `number` runs."""
        self.run(**kwargs)
        options = (repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return measure(self._call, *options)

    def time_evaluator(
        self,
        func_name: str,
        dev: Device | None = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """Return a function that measures `run`, or another method, with the inputs set."""
        timed = self._call if func_name == "run" else self[func_name]
        options = (repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return lambda *args: measure(lambda: timed(*args), *options)

    def __getitem__(self, key: str) -> Any:
        """Return a method by name, as functions of a module are looked up."""
        if key.startswith("_") or not hasattr(self, key):
            raise error("unknown-entry", f"a graph module has no function `{key}`")
        return getattr(self, key)


def create(graph_json_str: str, libmod: Any, device: Device | list[Device]) -> GraphModule:
    """Return the module of a library; the graph is part of it, its text is not looked at."""
    devices = device if isinstance(device, (list, tuple)) else [device]
    return GraphModule(getattr(libmod, "executable", libmod), *devices)


def _info(
    types: Mapping[str, ValueType],
) -> tuple[dict[str, tuple[Any, ...]], dict[str, str]]:
    tensors = {name: type_ for name, type_ in types.items() if type_.kind == "tensor"}
    shapes = {
        name: tuple(d if isinstance(d, int) else -1 for d in type_.dims)
        for name, type_ in tensors.items()
    }
    return shapes, {name: type_.dtype for name, type_ in tensors.items()}


def _copied(value: Any) -> Any:
    return np.array(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _given(value: Any, out: Any) -> Any:
    if out is None:
        return value
    out[...] = value
    return out


def _flat(value: Any) -> list[Any]:
    """Return the values of nested tuples, from the left."""
    pending, found = [value], []
    while pending:
        item = pending.pop()
        if type(item) is ADT:
            pending += reversed(item.fields)
        else:
            found.append(item)
    return found


def tensors_of(type_: ValueType) -> list[ValueType]:
    """Return the tensors of a type of nested tuples, from the left."""
    pending, found = [type_], []
    while pending:
        item = pending.pop()
        if item.kind == "tuple":
            pending += reversed(item.fields)
        else:
            found.append(item)
    return found


__getattr__ = absent("relayvm.contrib.graph_executor")

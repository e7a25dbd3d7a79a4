"""The machine and its executables by TVM's names: `tvm.runtime.vm`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error, quantity
from relayvm.ir.module import Module as IrModule
from relayvm.loading import load
from relayvm.relay.ndarray import Device, NDArray, as_ndarray, cpu
from relayvm.relay.values import ADT, to_argument, to_relay
from relayvm.vm import executable as native
from relayvm.vm.machine import VirtualMachine as NativeMachine
from relayvm.vm.manifest import Entry

ALLOCATORS = ("naive", "pooled")


class CompiledLibrary:
    """The compiled code of an executable, as the second half of what `Executable.save` returns."""

    def __init__(self, executable: native.Executable) -> None:
        self.native = executable

    def export_library(self, file_name: str, *_: Any, **__: Any) -> None:
        """Write the executable, whose file holds the code as well."""
        self.native.save(file_name)

    def save(self, file_name: str, fmt: str = "") -> None:
        """Write the executable, whose file holds the code as well."""
        self.native.save(file_name)


class Executable:
    """A compiled program: what `relay.vm.compile` returns."""

    def __init__(self, mod: Any) -> None:
        # What `load_module` gives holds an executable, which is the same one then.
        held = getattr(mod, "executable", mod)
        self.native: native.Executable = getattr(held, "native", held)
        self.source: IrModule | None = getattr(held, "source", None)

    def save(self) -> tuple[bytearray, CompiledLibrary]:
        """Return the program as bytes, and its compiled code."""
        return bytearray(self.native.to_bytes()), self.lib

    @staticmethod
    def load_exec(bytecode: bytes | bytearray, lib: Any = None) -> Executable:
        """Return the program of bytes; with `lib`, the native code in them is trusted.

        Raises RelayError `bad-executable` and what `relayvm.load` raises.
        """
        if not isinstance(bytecode, (bytes, bytearray)):
            raise TypeError("bytecode is expected to be the type of bytearray")
        data = bytes(bytecode)
        if isinstance(lib, CompiledLibrary) and lib.native.to_bytes() == data:
            return Executable(lib.native)
        return Executable(load(data, native=lib is not None))

    @property
    def module(self) -> Executable:
        """The executable itself."""
        return self

    mod = module

    def __getitem__(self, name: str) -> Any:
        """Return a method by name, as functions of a module are looked up."""
        return method_of(self, name)

    @property
    def lib(self) -> CompiledLibrary:
        """The compiled code."""
        return CompiledLibrary(self.native)

    @property
    def stats(self) -> str:
        """How many functions, constants and kernels there are, as text."""
        program = self.native.program()
        constants = ", ".join(str(list(c.shape)) for c in program.constants)
        return (
            "Relay VM executable statistics:\n"
            f"  Constant shapes (# {len(program.constants)}): [{constants}]\n"
            f"  Globals (#{len(self.globals)}): {self.globals}\n"
            f"  Primitive ops (#{len(program.kernels)}): {self.primitive_ops}\n"
        )

    @property
    def primitive_ops(self) -> list[str]:
        """The names of the kernels."""
        return [kernel.name for kernel in self.native.program().kernels]

    @property
    def bytecode(self) -> str:
        """The code of all functions, as text."""
        return self.native.disassemble()

    @property
    def constants(self) -> str:
        """The constants, as text."""
        return "\n".join(
            f"VM Const[{i}]: {c.dtype}{list(c.shape)}"
            for i, c in enumerate(self.native.program().constants)
        )

    @property
    def virtual_devices(self) -> str:
        """The devices, as text."""
        devices = self.native.manifest.devices
        return "\n".join(f"VM VirtualDevice[{i}]: {d}" for i, d in enumerate(devices))

    @property
    def primitives(self) -> str:
        """The kernels, as text."""
        return "\n".join(f"VM PackedFunc[{i}]: {n}" for i, n in enumerate(self.primitive_ops))

    @property
    def globals(self) -> list[str]:
        """The names of the functions that can be called."""
        return list(self.native.entries)

    def get_function_params(self, func_name: str) -> list[str]:
        """Return the names of a function's parameters; raises RelayError `unknown-entry`."""
        return [p.name for p in entry_of(self.native, func_name).parameters]

    def get_function_arity(self, func_name: str) -> int:
        """Return how many parameters a function has; raises RelayError `unknown-entry`."""
        return len(self.get_function_params(func_name))

    def export_library(self, file_name: str, fcompile: Any = None, **kwargs: Any) -> None:
        """Write the program to one file, which `load_module` reads; options mean nothing here."""
        self.native.save(file_name)

    # -- Constants kept apart from the program ------------------------------------------------

    def get_late_bound_consts(self, byte_limit: int) -> dict[str, NDArray]:
        """Move the constants of at least `byte_limit` bytes out, and return them by name.

        The names are `const_<i>`. Machines that were made before keep them; new ones, and the
        executable's file, lack them until they are loaded. Raises RelayError `late-constants` where
        they are out already.
        """
        self.native, moved = self.native.split_constants(byte_limit)
        return {name: as_ndarray(np.array(value)) for name, value in moved.items()}

    def move_late_bound_consts(self, path: str, byte_limit: int) -> None:
        """Move the constants of at least `byte_limit` bytes to a file, as `save_param_dict` has it.

        Raises RelayError `unwritable-file`; then they stay.
        """
        from relayvm.relay.param_dict import save_param_dict_to_file

        smaller, moved = self.native.split_constants(byte_limit)
        try:
            save_param_dict_to_file(moved, path)
        except OSError as reason:
            message = f"`{path}` cannot be written: {reason.strerror or reason}"
            raise error("unwritable-file", message) from None
        self.native = smaller

    def load_late_bound_consts(self, path: str) -> None:
        """Take the constants that `move_late_bound_consts` wrote; see the next method."""
        from relayvm.relay.param_dict import load_param_dict_from_file

        self.load_late_bound_consts_from_map(load_param_dict_from_file(path))

    def load_late_bound_consts_from_map(self, map: Mapping[str, Any]) -> None:
        """Take the constants that were moved out, all of them, by name.

        Raises RelayError `wrong-constants` unless names, dtypes, shapes and elements are right.
        """
        self.native = self.native.with_constants(map)


def method_of(module: Any, name: str) -> Callable[..., Any]:
    """Return a method by name; raises RelayError `unknown-entry`."""
    method = None if name.startswith("_") else getattr(module, name, None)
    if not callable(method):
        message = f"a `{type(module).__name__}` has no function `{name}`"
        raise error("unknown-entry", message)
    found: Callable[..., Any] = method
    return found


def entry_of(executable: native.Executable, name: str) -> Entry:
    """Return an entry by name; raises RelayError `unknown-entry`."""
    entry = executable.manifest.entry(name)
    if entry is None:
        known = ", ".join(f"`{n}`" for n in executable.entries) or "none"
        raise error("unknown-entry", f"there is no entry `{name}`; there are {known}")
    return entry


class VirtualMachine:
    """Runs the functions of an executable; `memory_cfg` is taken as a wish."""

    NAIVE_ALLOCATOR = 1
    POOLED_ALLOCATOR = 2

    def __init__(
        self,
        exe: Any,
        device: Device | Sequence[Device],
        memory_cfg: str | Mapping[Device, str] | None = None,
    ) -> None:
        # What `load_module` gives holds an executable.
        exe = getattr(exe, "executable", exe)
        if not isinstance(exe, (Executable, native.Executable)):
            message = f"a machine runs an Executable, not a `{type(exe).__name__}`"
            raise error("bad-option", message, help="`relay.vm.compile` makes one")
        _check_devices(device)
        _check_memory(memory_cfg)
        self._exec = exe if isinstance(exe, Executable) else Executable(exe)
        self.native = NativeMachine(self._exec.native)
        self._inputs: dict[str, list[Any]] = {}
        self._result: Any = None

    @property
    def module(self) -> VirtualMachine:
        """The machine itself: `module["invoke"]` is a method, `module.time_evaluator` measures."""
        return self

    def __getitem__(self, name: str) -> Any:
        """Return a method by name, as functions of a module are looked up."""
        return method_of(self, name)

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
        """Return a function that measures calls of a method, such as `invoke`."""
        timed = self[func_name]
        options = (repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return lambda *args: measure(lambda: timed(*args), *options)

    # -- Arguments that stay -------------------------------------------------------------------

    def set_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set all arguments of a function: named ones, and the others in the order of what is left.

        Names that the function has not are skipped, such as parameters that were compiled in.
        """
        names = self._names(func_name)
        named = {name: value for name, value in kwargs.items() if name in names}
        given = len(args) + len(named)
        if given != len(names):
            listed = ", ".join(f"`{n}`" for n in names) or "none"
            wanted = quantity(len(names), "argument")
            message = f"`{func_name}` takes {wanted}, {given} given; it has {listed}"
            raise error("wrong-argument", message)
        rest = iter(args)
        values = [named[name] if name in named else next(rest) for name in names]
        self._inputs[func_name] = [to_argument(v) for v in values]

    def set_one_input(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Set one argument of a function: by name or number and value, or as `name=value`."""
        if len(args) == 2 and not kwargs:
            tag, value = args
        elif len(kwargs) == 1 and not args:
            ((tag, value),) = kwargs.items()
        else:
            raise error("wrong-argument", "`set_one_input` sets one argument: a name and a value")
        names = self._names(func_name)
        place = tag if isinstance(tag, int) else self.get_input_index(tag, func_name)
        if not 0 <= place < len(names):
            known = ", ".join(f"`{n}`" for n in names) or "none"
            message = f"`{func_name}` has no parameter `{tag}`; it has {known}"
            raise error("wrong-argument", message)
        values = self._inputs.setdefault(func_name, [_MISSING] * len(names))
        values[place] = to_argument(value)

    def get_input_index(self, input_name: str, func_name: str = "main") -> int:
        """Return the number of a parameter, -1 where there is none of the name."""
        names = self._names(func_name)
        return names.index(input_name) if input_name in names else -1

    def _names(self, func_name: str) -> list[str]:
        return self._exec.get_function_params(func_name)

    # -- Runs ----------------------------------------------------------------------------------

    def invoke(self, func_name: str, *args: Any, **kwargs: Any) -> Any:
        """Call a function and return its result; without arguments, with those that are set."""
        self.invoke_stateful(func_name, *args, **kwargs)
        return self._result

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Call `main`."""
        return self.invoke("main", *args, **kwargs)

    def invoke_stateful(self, func_name: str, *args: Any, **kwargs: Any) -> None:
        """Call a function, by default with the arguments that are set, and keep its result."""
        if args or kwargs:
            self.set_input(func_name, *args, **kwargs)
        values = self._inputs.get(func_name, [])
        names = self._names(func_name)
        missing = [n for n, v in zip(names, values or [_MISSING] * len(names)) if v is _MISSING]
        if missing:
            listed = ", ".join(f"`{n}`" for n in missing)
            raise error("wrong-argument", f"{listed} of `{func_name}` is not set")
        self._result = to_relay(self.native.invoke(func_name, *values), self._exec.source)

    def invoke_with_outputs(
        self, func_name: str, input_args: Mapping[str, Any], output_args: Sequence[Any]
    ) -> None:
        """Call a function and write its results into arrays."""
        for name, value in input_args.items():
            self.set_one_input(func_name, name, value)
        self.invoke_stateful(func_name)
        for value, place in zip(self.get_outputs(), output_args, strict=True):
            place[...] = np.asarray(value)

    def get_outputs(self) -> list[Any]:
        """Return the results of the last call, those of a tuple one by one."""
        result = self._result
        is_tuple = type(result) is ADT
        return list(result) if is_tuple else [result]

    def benchmark(
        self,
        device: Device | None = None,
        *args: Any,
        func_name: str = "main",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: Any,
    ) -> BenchmarkResult:
        """Return the seconds that a call takes, `repeat` means of `number` calls.

        Arguments and results are converted in each call, so that `end_to_end` changes nothing.
        """
        self.invoke_stateful(func_name, *args, **kwargs)
        values = self._inputs.get(func_name, [])
        options = (repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown)
        return measure(lambda: self.native.invoke(func_name, *values), *options)


class _Missing:
    """What stands for an argument that is not set."""


_MISSING = _Missing()


def _check_devices(device: Any) -> None:
    devices = device if isinstance(device, (list, tuple)) else [device]
    for one in devices:
        if isinstance(one, Device) and not one.exist:
            raise error("unknown-target", f"there is no device {one}: programs run on {cpu()}")


def _check_memory(memory_cfg: Any) -> None:
    if memory_cfg is None:
        return
    wishes = memory_cfg.values() if isinstance(memory_cfg, Mapping) else [memory_cfg]
    for wish in wishes:
        if wish not in ALLOCATORS:
            known = " and ".join(f"`{name}`" for name in ALLOCATORS)
            raise error("bad-option", f"there is no allocator `{wish}`; known are {known}")


@dataclass(frozen=True)
class BenchmarkResult:
    """Times of repeated runs, in seconds."""

    results: Sequence[float]

    @property
    def mean(self) -> float:
        """The mean."""
        return float(np.mean(self.results))

    @property
    def median(self) -> float:
        """The median."""
        return float(np.median(self.results))

    @property
    def min(self) -> float:
        """The shortest."""
        return float(np.min(self.results))

    @property
    def max(self) -> float:
        """The longest."""
        return float(np.max(self.results))

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.std(self.results))

    def __str__(self) -> str:
        names = ("mean", "median", "max", "min", "std")
        head = " ".join(f"{name + ' (ms)':^12}" for name in names)
        row = " ".join(f"{getattr(self, name) * 1e3:^12.4f}" for name in names)
        return f"Execution time summary:\n{head}\n{row}"


def measure(
    run: Any,
    repeat: int,
    number: int,
    min_repeat_ms: int | None = None,
    cooldown_interval_ms: int = 0,
    repeats_to_cooldown: int = 1,
) -> BenchmarkResult:
    """Return the time of a call: `repeat` means of `number` calls, or of as many as
    `min_repeat_ms` takes.
    """
    if repeat < 1 or number < 1:
        raise error("bad-option", "`repeat` and `number` are at least 1")
    times = []
    for turn in range(repeat):
        calls, spent = 0, 0.0
        while calls < number or spent * 1e3 < (min_repeat_ms or 0):
            start = time.perf_counter()
            run()
            spent += time.perf_counter() - start
            calls += 1
        times.append(spent / calls)
        if cooldown_interval_ms and (turn + 1) % repeats_to_cooldown == 0:
            time.sleep(cooldown_interval_ms / 1e3)
    return BenchmarkResult(tuple(times))


__all__ = [
    "BenchmarkResult",
    "CompiledLibrary",
    "Executable",
    "VirtualMachine",
    "measure",
]

"""Executables apart from their large constants, and with them again. Writes no files of arrays."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from relayvm.base.diagnostics import InternalError, RelayError, error
from relayvm.vm.arrays import buffer_of
from relayvm.vm.executable import Executable, read_executable
from relayvm.vm.file.codec import encode
from relayvm.vm.library import lib
from relayvm.vm.program import LateConstant

MOST_TOLD = 8


def name_of(number: int) -> str:
    """Return the name by which a constant is given: `const_3`."""
    return f"const_{number}"


def split_constants(
    executable: Executable, least_bytes: int
) -> tuple[Executable, dict[str, np.ndarray]]:
    """Return the executable without its constants of at least `least_bytes` bytes, and these."""
    if type(least_bytes) is not int or least_bytes < 0:
        raise error("bad-option", f"{least_bytes!r} is no number of bytes")
    check_complete(executable)
    moved: dict[str, np.ndarray] = {}

    def keep(number: int, array: Any) -> np.ndarray | LateConstant:
        if array.nbytes < least_bytes:
            return np.asarray(array)
        moved[name_of(number)] = array
        return LateConstant(array.dtype, array.shape, checksum(array))

    return _changed(executable, keep), moved


def with_constants(executable: Executable, arrays: Mapping[str, Any]) -> Executable:
    """Return the executable with the constants that it lacks, which are `arrays` by name."""
    if not isinstance(arrays, Mapping):
        message = f"constants are given as arrays by name, not as a `{type(arrays).__name__}`"
        raise error("bad-option", message)
    wanted = executable.late_constants
    given = {name: _array(name, value) for name, value in arrays.items()}
    faults = [f"`{name}` is missing" for name in wanted if name not in given]
    for name, array in given.items():
        fault = _fault(wanted.get(name), array)
        if fault:
            faults.append(f"`{name}` {fault}")
    if faults:
        more = f", and {len(faults) - MOST_TOLD} more" if len(faults) > MOST_TOLD else ""
        message = f"these are not its constants: {', '.join(faults[:MOST_TOLD])}{more}"
        raise error("wrong-constants", message)

    def fill(number: int, constant: Any) -> np.ndarray:
        array: np.ndarray = given.get(name_of(number), constant)
        return array

    return _changed(executable, fill) if wanted else executable


def _array(name: str, value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as reason:
        raise error("wrong-constants", f"`{name}` is no array: {reason}") from None


def _fault(wanted: LateConstant | None, array: np.ndarray) -> str:
    if wanted is None:
        return "is not among them"
    if array.dtype != wanted.dtype or array.shape != wanted.shape:
        type_, mine = _type_text(array), _type_text(wanted)
        return f"is {type_}, not {mine}"
    return "" if checksum(array) == wanted.checksum else "has other elements"


def _type_text(array: np.ndarray | LateConstant) -> str:
    return f"{array.dtype}{list(array.shape)}"


def checksum(array: np.ndarray) -> int:
    """Return the checksum of an array's bytes, as `file.format` has it."""
    data = buffer_of(np.ascontiguousarray(array))
    return int(lib.rvm_checksum(data, array.nbytes))


def check_complete(executable: Executable) -> None:
    """Raise RelayError `late-constants` if the executable lacks constants."""
    if lib.rvm_program_num_late_constants(executable.handle):
        raise _incomplete(executable)


def _incomplete(executable: Executable) -> RelayError:
    names = list(executable.late_constants)
    more = f" and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else ""
    listed = ", ".join(f"`{name}`" for name in names[:MOST_TOLD])
    return error(
        "late-constants",
        f"this executable lacks constants, which are bound late: {listed}{more}",
        help="`exe.with_constants(arrays)` returns the executable that has them; by TVM's names, "
        "`load_late_bound_consts(path)` puts them in",
    )


def _changed(
    executable: Executable, change: Callable[[int, Any], np.ndarray | LateConstant]
) -> Executable:
    """Return the executable with other constants, and with the code that its kernels have."""
    program = executable.program()
    constants = tuple(change(number, c) for number, c in enumerate(program.constants))
    made = read_executable(encode(dataclasses.replace(program, constants=constants)))
    if lib.rvm_program_share_code(made.handle, executable.handle) != 0:
        raise InternalError("an executable with other constants has other kernels")
    callbacks = executable.__dict__.get("_python_kernels")
    if callbacks:
        made.__dict__["_python_kernels"] = dict(callbacks)
    return made

"""Types of command-line values, and options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import BFLOAT16


def add_command(commands: Any, name: str, text: str, epilog: str = "") -> argparse.ArgumentParser:
    """Add a command that says what it does in the list of commands and in its own help."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name, help=text, description=f"{text[0].upper()}{text[1:]}.", epilog=epilog
    )
    return parser


def read_text(path: Path) -> str:
    """Return the text of a file; raises RelayError `unreadable-file`."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as reason:
        message = f"`{path}` cannot be read: {reason.strerror or reason}"
    except UnicodeDecodeError as reason:
        message = f"`{path}` is not UTF-8 text: {reason.reason} at byte {reason.start}"
    raise error("unreadable-file", message)


def read_array(path: Path) -> np.ndarray:
    """Return the array in a .npy file; raises RelayError `unreadable-file`."""
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as reason:
        message = f"`{path}` cannot be read: {reason.strerror or reason}"
        raise error("unreadable-file", message) from None
    except (ValueError, EOFError) as reason:
        raise error("unreadable-file", f"`{path}` is no .npy file: {reason}") from None
    if not isinstance(array, np.ndarray):
        raise error("unreadable-file", f"`{path}` holds several arrays; save one by `np.save`")
    return _with_dtype(array)


def read_named_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays in a .npz file; raises RelayError `unreadable-file`."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: _with_dtype(arrays[name]) for name in arrays.files}
    except OSError as reason:
        message = f"`{path}` cannot be read: {reason.strerror or reason}"
    except Exception as reason:  # a damaged archive makes its readers raise anything
        message = f"`{path}` is no .npz file: {reason}"
    raise error("unreadable-file", message)


def _with_dtype(array: np.ndarray) -> np.ndarray:
    """Return an array of a file; numpy writes bfloat16 as two bytes without a name."""
    return array.view(BFLOAT16.numpy) if array.dtype == np.dtype("V2") else array


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn failures to write `path` into RelayError `unwritable-file`."""
    try:
        yield
    except OSError as reason:
        message = f"`{path}` cannot be written: {reason.strerror or reason}"
        raise error("unwritable-file", message) from None


def count(text: str) -> int:
    """Return a whole number of at least 0; raises ArgumentTypeError for anything else."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if value < 0:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number of at least 0")
    return value


def positive(text: str) -> int:
    """Return a whole number of at least 1; raises ArgumentTypeError for anything else."""
    value = count(text)
    if value == 0:
        raise argparse.ArgumentTypeError("`0` is less than 1")
    return value


def named_file(text: str) -> tuple[str, Path]:
    """Split `name=file.npy`; raises ArgumentTypeError for anything else."""
    name, equals, path = text.partition("=")
    if not name or not equals or not path:
        raise argparse.ArgumentTypeError(f"`{text}` is not of the form name=file.npy")
    return name, Path(path)


def read_arrays(pairs: list[tuple[str, Path]]) -> dict[str, np.ndarray]:
    """Return arrays by name from `name=file.npy` options; raises RelayError for a name given
    twice.
    """
    arrays: dict[str, np.ndarray] = {}
    for name, path in pairs:
        if name in arrays:
            raise error("bad-option", f"`{name}` is given twice")
        arrays[name] = read_array(path)
    return arrays


def add_machine_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a machine: engine, threads and limits."""
    parser.add_argument(
        "--engine",
        choices=("auto", "interpreter", "jit"),
        default="auto",
        help="how bytecode runs (default: auto)",
    )
    parser.add_argument(
        "--threads",
        type=positive,
        metavar="N",
        help="threads that kernels may use (default: the cores)",
    )
    for name, unit, text in (
        ("--max-steps", "STEPS", "calls and kernel work before a trap (default: no limit)"),
        ("--max-memory", "BYTES", "memory before a trap (default: what the computer has)"),
        ("--max-depth", "CALLS", "nested calls before a trap (default: 2,000,000)"),
    ):
        parser.add_argument(name, type=count, metavar=unit, help=text)


def machine_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `VirtualMachine` that the options give."""
    return {
        "engine": options.engine,
        "num_threads": options.threads,
        "max_steps": options.max_steps,
        "max_memory": options.max_memory,
        "max_depth": options.max_depth,
    }

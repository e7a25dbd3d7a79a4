"""Types of command-line values, and options that several commands share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from relayvm.base.diagnostics import error


def read_array(path: Path) -> np.ndarray:
    """Return the array in a .npy file; raises RelayError `unreadable-file`."""
    try:
        return np.load(path, allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, ValueError) as reason:
        raise error("unreadable-file", f"`{path}` is no .npy file: {reason}") from None


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
    parser.add_argument("--engine", choices=("auto", "interpreter"), default="auto")
    parser.add_argument("--max-steps", type=int, help="calls and kernel work before a trap")
    parser.add_argument("--max-memory", type=int, metavar="BYTES", help="bytes before a trap")
    parser.add_argument("--max-depth", type=int, help="nested calls before a trap")


def machine_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Return the keyword arguments of `VirtualMachine` that the options give."""
    return {
        "engine": options.engine,
        "max_steps": options.max_steps,
        "max_memory": options.max_memory,
        "max_depth": options.max_depth,
    }

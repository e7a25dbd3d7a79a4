"""Commands on executables: run, verify, inspect, disassemble, assemble."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.cli.describe import describe_executable
from relayvm.cli.options import (
    add_command,
    add_machine_options,
    count,
    machine_arguments,
    named_file,
    read_arrays,
    read_named_arrays,
    read_text,
    writing,
)
from relayvm.cli.random_values import RandomValues
from relayvm.vm.executable import read_executable

if TYPE_CHECKING:
    from relayvm.vm.machine import VirtualMachine
    from relayvm.vm.manifest import Entry


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the parser."""
    run = add_command(commands, "run", "run an executable")
    add_call_options(run)
    run.add_argument(
        "--output", type=Path, metavar="FOLDER", help="where results are written as .npy files"
    )
    run.add_argument(
        "--check-finite", action="store_true", help="fail if a result has a NaN or an infinity"
    )
    run.set_defaults(run=run_run)
    for name, action, text in (
        ("verify", run_verify, "check a file completely, constants included"),
        ("inspect", run_inspect, "print what a file holds"),
        ("disassemble", run_disassemble, "print the bytecode of a file"),
    ):
        parser = add_command(commands, name, text)
        parser.add_argument("file", type=Path, help="executable (.rvm)")
        parser.set_defaults(run=action)
        if name == "inspect":
            parser.add_argument("--nests", action="store_true", help="print the loop nests, too")
        if name == "disassemble":
            parser.add_argument(
                "--data",
                action="store_true",
                help="print the contents of constants, so that `assemble` gets the same program",
            )
    assemble = add_command(commands, "assemble", "make an executable from bytecode text")
    assemble.add_argument("file", type=Path, help="bytecode text, as `disassemble` prints it")
    assemble.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FILE", help="executable to write"
    )
    assemble.set_defaults(run=run_assemble)


def add_call_options(parser: argparse.ArgumentParser) -> None:
    """Add what tells which function of a file is called, on what and how."""
    parser.add_argument("file", type=Path, help="executable (.rvm)")
    parser.add_argument(
        "--entry", default="main", metavar="NAME", help="function to call (default: main)"
    )
    parser.add_argument(
        "--input",
        type=named_file,
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="array for a parameter of the function; may be repeated",
    )
    parser.add_argument(
        "--constants",
        type=Path,
        metavar="FILE.npz",
        help="constants that the file lacks, by name, as `np.savez` writes them",
    )
    parser.add_argument(
        "--random", action="store_true", help="make up the inputs that are not given"
    )
    parser.add_argument("--seed", type=count, default=0, help="seed of --random (default: 0)")
    parser.add_argument(
        "--size",
        type=count,
        default=8,
        help="size of axes that are `?` or symbols under --random (default: 8)",
    )
    parser.add_argument("--native", action="store_true", help="trust the native code in the file")
    add_machine_options(parser)


def prepare_call(options: argparse.Namespace) -> tuple[VirtualMachine, Entry, dict[str, Any]]:
    """Return a machine, the entry to call and its inputs; raises RelayError `unknown-entry`."""
    import relayvm

    exe = relayvm.load(options.file, native=options.native)
    if options.constants is not None:
        exe = exe.with_constants(read_named_arrays(options.constants))
    entry = exe.manifest.entry(options.entry)
    if entry is None:
        known = ", ".join(f"`{e.name}`" for e in exe.manifest.entries)
        message = f"`{options.file}` has no entry `{options.entry}`; there are {known}"
        raise error("unknown-entry", message)
    inputs: dict[str, Any] = dict(read_arrays(options.input))
    if options.random:
        random = RandomValues(exe, options.seed, options.size)
        for parameter in entry.parameters:
            if parameter.name not in inputs:
                inputs[parameter.name] = random.value(parameter.name, parameter.type)
    return relayvm.VirtualMachine(exe, **machine_arguments(options)), entry, inputs


def run_run(options: argparse.Namespace) -> int:
    """Call one function of an executable and print its result."""
    vm, entry, inputs = prepare_call(options)
    result = vm.invoke(entry.name, **inputs)
    results = result if isinstance(result, tuple) else (result,)
    for index, value in enumerate(results):
        name = entry.results[index] if index < len(entry.results) else f"output{index}"
        print(f"{name}: {describe(value)}")
        if options.check_finite and not is_finite(value):
            raise error("not-finite", f"result `{name}` has a NaN or an infinity")
        if options.output is not None and isinstance(value, np.ndarray):
            with writing(options.output):
                options.output.mkdir(parents=True, exist_ok=True)
                np.save(options.output / f"{name}.npy", value)
    return 0


def describe(value: Any) -> str:
    """Return a value on one line, long arrays cut short."""
    if isinstance(value, np.ndarray):
        text = np.array2string(value, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
        return f"{value.dtype}{list(value.shape)} {text}"
    return repr(value)


def is_finite(value: Any) -> bool:
    """Tell whether an array is free of NaN and infinities; other values always are."""
    return not isinstance(value, np.ndarray) or bool(np.isfinite(value).all())


def run_verify(options: argparse.Namespace) -> int:
    """Check a file, constants included; nothing of it is run."""
    exe = read_executable(options.file, verify_constants=True)
    exe.program()
    print(f"{options.file}: sound, {exe}")
    return 0


def run_inspect(options: argparse.Namespace) -> int:
    """Print the entries, data types, functions, kernels and sections of a file."""
    for line in describe_executable(read_executable(options.file), nests=options.nests):
        print(line)
    return 0


def run_disassemble(options: argparse.Namespace) -> int:
    """Print the bytecode of a file."""
    sys.stdout.write(read_executable(options.file).disassemble(data=options.data))
    return 0


def run_assemble(options: argparse.Namespace) -> int:
    """Make an executable from bytecode text."""
    from relayvm.vm.assembly import assemble
    from relayvm.vm.file.codec import encode

    exe = read_executable(encode(assemble(read_text(options.file), str(options.file))))
    with writing(options.output):
        exe.save(options.output)
    print(f"wrote {options.output} ({options.output.stat().st_size:,} bytes)")
    return 0

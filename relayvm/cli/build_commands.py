"""`relayvm compile`, `opt` and `library`: from Relay text to executables, between forms of a
program, and the library for C programs.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.cli.options import add_command, named_file, read_arrays, writing


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the parser."""
    _add_compile(commands)
    _add_opt(commands)
    library = add_command(commands, "library", "build the library that runs executables from C")
    library.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="where relayvm.h and librelayvm.so are written",
    )
    library.add_argument(
        "--compiler", default="cc", metavar="COMMAND", help="the C compiler (default: cc)"
    )
    library.set_defaults(run=run_library)


def _add_compile(commands: Any) -> None:
    compile_ = add_command(commands, "compile", "compile a program to an executable file")
    compile_.add_argument("model", type=Path, help="program text (.relay)")
    compile_.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="executable to write (default: MODEL.rvm)",
    )
    compile_.add_argument(
        "--target", default="cpu", help="device, for example `cpu -mcpu=generic` (default: cpu)"
    )
    compile_.add_argument(
        "--opt-level",
        type=int,
        default=3,
        choices=range(5),
        metavar="0-4",
        help="how much the passes do; `relayvm opt --list` shows which run (default: 3)",
    )
    compile_.add_argument(
        "--param",
        type=named_file,
        action="append",
        default=[],
        metavar="NAME=FILE.npy",
        help="array that takes the place of a parameter of main; may be repeated",
    )
    compile_.add_argument(
        "--entry",
        action="append",
        metavar="NAME",
        help="function to keep callable, `last[int32]` with type arguments; may be repeated"
        " (default: all that the program defines)",
    )
    compile_.add_argument(
        "--jit",
        action="store_true",
        help="store machine code of the functions, too: run from a file with --native, or from C,"
        " nothing is interpreted then",
    )
    compile_.add_argument(
        "--emit",
        choices=("executable", "relay", "assembly", "python"),
        default="executable",
        help="what to make: a file, or on standard output the optimised program, its bytecode, or"
        " the program as Python over numpy (default: executable)",
    )
    compile_.set_defaults(run=run_compile)


def _add_opt(commands: Any) -> None:
    opt = add_command(
        commands,
        "opt",
        "run passes over a program and print the result",
        epilog="Options of a pass stand in brackets: --passes='inline[marked_only=true],to_anf'.",
    )
    opt.add_argument("file", type=Path, nargs="?", help="program text; `-` reads standard input")
    opt.add_argument(
        "--passes",
        default="",
        metavar="A,B[x=1]",
        help="passes in order; what one requires runs before it",
    )
    opt.add_argument(
        "--list",
        action="store_true",
        help="list all passes with the level from which `compile` runs them, if it does, and their"
        " options",
    )
    opt.add_argument("--show-types", action="store_true", help="print the type of each expression")
    opt.add_argument("--library", action="store_true", help="print what the prelude supplies, too")
    opt.set_defaults(run=run_opt)


def run_compile(options: argparse.Namespace) -> int:
    """Compile one program."""
    import relayvm
    from relayvm.compiler.entries import bind_params
    from relayvm.compiler.optimize import optimize
    from relayvm.compiler.to_python import to_python
    from relayvm.ir.printer import print_module

    module = relayvm.parse(options.model)
    params = read_arrays(options.param)
    if options.emit == "python":
        sys.stdout.write(to_python(bind_params(module, params)))
        return 0
    if options.emit == "relay":
        module = bind_params(module, params)
        lowered = optimize(module, opt_level=options.opt_level, entries=options.entry)
        sys.stdout.write(print_module(lowered.module, library=True))
        return 0
    exe = relayvm.compile(
        module,
        target=options.target,
        params=params,
        opt_level=options.opt_level,
        entries=options.entry,
        jit=options.jit,
    )
    if options.emit == "assembly":
        sys.stdout.write(exe.disassemble())
        return 0
    output = options.output or options.model.with_suffix(".rvm")
    if output.exists() and options.model.exists() and output.samefile(options.model):
        raise error("bad-option", f"`{output}` is the program itself; choose another --output")
    with writing(output):
        exe.save(output)
    print(f"wrote {output} ({output.stat().st_size:,} bytes)")
    return 0


def run_opt(options: argparse.Namespace) -> int:
    """Run passes over one program."""
    import relayvm
    from relayvm.compiler.passes import PASSES, run_passes
    from relayvm.compiler.steps import split_steps
    from relayvm.ir.printer import print_module

    if options.list:
        print(f"{'PASS':33} LEVEL  WHAT IT DOES [OPTIONS]")
        for row in PASSES.values():
            given = ", ".join(f"{name}={value}".lower() for name, value in row.options)
            level = str(row.opt_level) if row.in_pipeline else "-"
            print(f"{row.name:33} {level:5}  {row.doc}" + (f" [{given}]" if given else ""))
        return 0
    if options.file is None:
        raise error("bad-option", "`relayvm opt` needs a file, or --list")
    if str(options.file) == "-":
        module = relayvm.parse(sys.stdin.read(), name="<stdin>")
    else:
        module = relayvm.parse(options.file)
    module = run_passes(module, split_steps(options.passes))
    text = print_module(module, show_types=options.show_types, library=options.library)
    sys.stdout.write(text)
    return 0


def run_library(options: argparse.Namespace) -> int:
    """Build the C library."""
    from relayvm.vm.runtime.c_library import build_library

    for path in build_library(options.output, shlex.split(options.compiler) or ["cc"]):
        print(path)
    return 0

"""The command `relayvm`: its options, and how errors become exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import traceback
from collections.abc import Sequence

import relayvm
from relayvm.base.diagnostics import InternalError, RelayError
from relayvm.cli import (
    bench_commands,
    build_commands,
    file_commands,
    info_commands,
    profile_commands,
)

EXIT_USER_ERROR = 1
EXIT_INTERNAL_ERROR = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return 0, or 1 for an error of the user's, 2 for usage, 3 for ours."""
    options = make_parser().parse_args(argv)
    try:
        code = int(options.run(options) or 0)
        sys.stdout.flush()
        return code
    except RelayError as mistake:
        print(mistake, file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has gone; what Python would still flush at exit goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as fault:
        return _report(fault)


def _report(fault: Exception) -> int:
    """Print a fault of ours on one line and keep its traceback in a file."""
    handle, path = tempfile.mkstemp(prefix="relayvm-", suffix=".txt")
    with open(handle, "w", encoding="utf-8") as file:
        traceback.print_exception(type(fault), fault, fault.__traceback__, file=file)
    name = "" if isinstance(fault, InternalError) else f"{type(fault).__name__}: "
    print(f"internal error: {name}{fault}\nnote: the traceback is in {path}", file=sys.stderr)
    return EXIT_INTERNAL_ERROR


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="relayvm",
        description="Compile Relay programs to executables and run them.",
        epilog="`relayvm COMMAND --help` tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"relayvm {relayvm.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    rooms = (build_commands, file_commands, profile_commands, bench_commands, info_commands)
    for module in rooms:
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""The command `relayvm`: its options, and how errors become exit codes. Commands live beside
this.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import relayvm
from relayvm.base.diagnostics import InternalError, RelayError
from relayvm.cli import bench_commands, build_commands, file_commands, info_commands

EXIT_USER_ERROR = 1
EXIT_INTERNAL_ERROR = 3
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, 1 for a user's error, 2 for usage, 3 for
    ours.
    """
    parser = make_parser()
    options = parser.parse_args(argv)
    try:
        code = options.run(options)
        return int(code or 0)
    except RelayError as mistake:
        print(mistake, file=sys.stderr)
        return EXIT_USER_ERROR
    except InternalError as fault:
        print(f"internal error: {fault}", file=sys.stderr)
        return EXIT_INTERNAL_ERROR
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="relayvm",
        description="Compile Relay programs to executables and run them.",
        epilog="`relayvm COMMAND --help` tells more about a command.",
    )
    parser.add_argument("--version", action="version", version=f"relayvm {relayvm.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (build_commands, file_commands, bench_commands, info_commands):
        module.add_commands(commands)
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Commands about RelayVM itself: explain, settings, info, cache."""

from __future__ import annotations

import argparse
import platform
import sys
from difflib import get_close_matches
from typing import Any

import relayvm
from relayvm.base.diagnostics import error, quantity
from relayvm.base.error_codes import ERROR_CODES
from relayvm.base.settings import SETTINGS, setting
from relayvm.cli.options import add_command


def add_commands(commands: Any) -> None:
    """Add the commands of this file to the parser."""
    explain = add_command(commands, "explain", "explain an error code")
    explain.add_argument("code", nargs="?", help="the code in brackets; none lists them all")
    explain.set_defaults(run=run_explain)
    settings = add_command(commands, "settings", "list environment switches and their values")
    settings.set_defaults(run=run_settings)
    info = add_command(commands, "info", "print versions, the host's CPU and its features")
    info.set_defaults(run=run_info)
    cache = add_command(commands, "cache", "show or clear the cache of compiled kernels")
    cache.add_argument("--clear", action="store_true", help="remove all entries")
    cache.set_defaults(run=run_cache)


def run_explain(options: argparse.Namespace) -> int:
    """Print what a code means."""
    if options.code is None:
        for code, text in sorted(ERROR_CODES.items()):
            print(f"{code:26} {text.splitlines()[0]}")
        return 0
    code = options.code.removeprefix("error").strip("[]")
    if code not in ERROR_CODES:
        near = get_close_matches(code, ERROR_CODES, 1)
        hint = f"; did you mean `{near[0]}`?" if near else ""
        raise error("unknown-code", f"there is no error code `{code}`{hint}")
    print(f"{code}\n\n{ERROR_CODES[code]}")
    return 0


def run_settings(_options: argparse.Namespace) -> int:
    """Print all environment switches."""
    for name, row in SETTINGS.items():
        value = setting(name)
        shown = ", ".join(value) if isinstance(value, tuple) else value
        print(f"{name} = {shown if shown not in ('', None) else '(empty)'}\n    {row.meaning}")
    return 0


def run_info(_options: argparse.Namespace) -> int:
    """Print versions and the host that kernels are compiled for."""
    print(f"relayvm   {relayvm.__version__}")
    print(f"python    {platform.python_version()} on {platform.platform()}")
    for name in ("numpy", "llvmlite", "cffi", "torch", "onnxruntime"):
        print(f"{name:9} {_version(name)}")
    from relayvm.base.native.cpu import host_triple, target_cpu
    from relayvm.base.target import Target
    from relayvm.kernels.build import compiler_available

    print(f"host      {host_triple()}")
    print(f"code for  {target_cpu(Target()).description}")
    if not compiler_available():
        print("llvmlite is missing: saved native code runs, nothing can be compiled")
    return 0


def _version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def run_cache(options: argparse.Namespace) -> int:
    """Show or clear the kernel cache."""
    from relayvm.base.cache import cache_info, clear_cache

    info = clear_cache() if options.clear else cache_info()
    if info.fault is not None:
        print(f"the kernel cache is not used: {info.fault}")
        return 0
    if info.folder is None:
        print("the kernel cache is turned off (RELAYVM_CACHE is empty)")
        return 0
    if options.clear and info.size_bytes:
        raise error("unwritable-file", f"`{info.folder}` cannot be cleared")
    if options.clear:
        print("the kernel cache is empty", file=sys.stderr)
        return 0
    print(f"{info.folder}: {quantity(info.entries, 'kernel')}, {info.size_bytes / 2**20:.1f} MiB")
    print(f"bound: {info.limit_bytes / 2**20:.0f} MiB (RELAYVM_CACHE_MIB)")
    return 0

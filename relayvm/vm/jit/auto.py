"""The engine `auto`: machines interpret until the code of their program is there, which a process
makes in the background once they have run for long enough.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from relayvm.base.cache import kernel_cache
from relayvm.base.diagnostics import RelayError
from relayvm.vm.jit.engine import attach_native, native_key
from relayvm.vm.jit.host import this_host
from relayvm.vm.library import ffi, lib

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable

# What a program has to have done before it is compiled: a few tens of milliseconds' worth.
ASK_AFTER_STEPS = 1 << 20

# Paths are given, not found again, so that the process has what this one has. It computes nothing.
_START = """
import sys
sys.path[:] = sys.argv[2:]
from relayvm.vm.jit.background import answer
answer(sys.argv[1])
"""


def follow_native(executable: Executable, machine: object) -> None:
    """Let a machine run compiled code as soon as its program has some: now, if the cache holds it.

    Where nothing can be compiled the machine interprets for ever.
    """
    program = executable.handle
    known = lib.rvm_program_is_native(program) or lib.rvm_program_has_compiler(program)
    if known or _prepare(executable):
        lib.rvm_machine_follow_native(machine, ASK_AFTER_STEPS)


def _prepare(executable: Executable) -> bool:
    """Give a program its code or what makes it; False where there is neither."""
    try:
        host = this_host()
    except RelayError:
        return False
    key = native_key(executable)
    image = kernel_cache().get(key)
    if image is not None:
        attach_native(executable, image)
        return True
    if not sys.executable or importlib.util.find_spec("llvmlite") is None:
        return False
    request = json.dumps({"key": key, "host": dataclasses.asdict(host)})
    home = str(Path(__file__).parents[3])
    words = [sys.executable, "-E", "-S", "-c", _START, request, home, *filter(None, sys.path)]
    encoded = [ffi.new("char[]", word.encode(errors="surrogateescape")) for word in words]
    note = json.dumps(executable.texts).encode()
    lib.rvm_program_set_compiler(executable.handle, encoded, len(words), note)
    return True

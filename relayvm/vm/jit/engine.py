"""From an executable to code that its machines run: from the user's cache, or compiled now."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.base import link
from relayvm.base.abi import Image
from relayvm.base.cache import kernel_cache
from relayvm.base.diagnostics import error
from relayvm.vm import isa
from relayvm.vm.file import decode
from relayvm.vm.file.format import SECTIONS
from relayvm.vm.jit.host import this_host
from relayvm.vm.library import ffi, lib

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable

_lock = threading.Lock()


def make_native(executable: Executable, inline: bool = True) -> None:
    """Give an executable the code that the engine `jit` runs, unless it has it.

    Without `inline` all but control is done by C bodies (a test mode). Raises RelayError
    `bad-option` where this host cannot compile or run such code.
    """
    with _lock:
        if not lib.rvm_program_is_native(executable.handle):
            attach_native(executable, _image(executable, inline))


def make_profiled(executable: Executable) -> None:
    """Give an executable the instrumented code that measured runs of the engine `jit` use.

    Raises as `make_native` does.
    """
    with _lock:
        if lib.rvm_program_is_profiled(executable.handle):
            return
        base, functions, enter, _ = _mapped(executable, _image(executable, True, profiled=True))
        if lib.rvm_program_set_profiled(executable.handle, base, functions, enter) != 0:
            raise error("out-of-memory", "there is no memory for the native code")


def _image(executable: Executable, inline: bool, profiled: bool = False) -> Image:
    cache, key = kernel_cache(), native_key(executable, inline, profiled)
    image = cache.get(key)
    if image is None:
        # Not loaded by whoever finds all in the cache.
        from relayvm.vm.jit.compile import program_image

        texts = {} if profiled else executable.texts
        image = program_image(executable.program(), inline, profiled=profiled, texts=texts)
        cache.put(key, image)
    return image


def native_key(executable: Executable, inline: bool = True, profiled: bool = False) -> str:
    """Return the hash of all that an executable's code depends on: program, host, compiler."""
    digest = hashlib.sha256(f"{this_host()} {inline} {profiled} {compiler_version()}".encode())
    for section in SECTIONS:
        if section.name != "data":  # constants
            digest.update(executable.section(section.name))
    for number, text in sorted(executable.texts.items()):
        digest.update(f"{number} {text}".encode())
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def compiler_version() -> str:
    """Return what identifies this compiler: its sources, and LLVM's binding if it is there."""
    digest = hashlib.sha256()
    paths = [*sorted(Path(__file__).parent.glob("*.py"))]
    paths += [Path(str(module.__file__)) for module in (isa, decode, link)]
    binding = importlib.util.find_spec("llvmlite")
    if binding is not None and binding.origin is not None:
        # Read, not imported: what finds all in the cache must not load LLVM.
        paths.append(Path(binding.origin).with_name("_version.py"))
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def attach_native(executable: Executable, image: Image) -> None:
    """Give an executable its code; where another thread was faster, that stays."""
    base, functions, enter, margin = _mapped(executable, image)
    if lib.rvm_program_set_native(executable.handle, base, functions, enter, margin) != 0:
        raise error("out-of-memory", "there is no memory for the native code")


def _mapped(executable: Executable, image: Image) -> tuple[Any, Any, Any, int]:
    """Map an image; return its address, the offsets of functions and of what enters them, and the
    stack they need.
    """
    from relayvm.vm.executable import map_image

    base = map_image(executable.handle, image)
    functions = ffi.new("uint32_t[]", image.entries["functions"])
    enter = ffi.new("uint32_t[]", image.entries["enter"])
    (margin,) = image.entries["margin"]
    return base, functions, enter, margin

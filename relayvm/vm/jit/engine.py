"""From an executable to code that its machines run: from the user's cache, or compiled now."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relayvm.base import link
from relayvm.base.abi import Image
from relayvm.base.cache import image_to_bytes, kernel_cache
from relayvm.base.diagnostics import error
from relayvm.base.process import RenewedLock, llvm_lock
from relayvm.vm import isa
from relayvm.vm.file import decode
from relayvm.vm.file.codec import encoded_sections
from relayvm.vm.file.format import SECTIONS, Buffer
from relayvm.vm.jit.host import Host, this_host
from relayvm.vm.library import ffi, lib
from relayvm.vm.program import NativeCode, Program

if TYPE_CHECKING:
    from relayvm.vm.executable import Executable

_lock = RenewedLock()

# Constants are not read by it, nor is what was compiled already.
COMPILED_FROM = tuple(
    s.name for s in SECTIONS if s.name not in ("data", "images") and not s.name.startswith("image_")
)


def make_native(executable: Executable, inline: bool = True) -> None:
    """Give an executable the code that the engine `jit` runs, unless it has it.

    Without `inline` all but control is done by C bodies (a test mode). Raises RelayError
    `bad-option` where this host cannot compile or run such code.
    """
    with _lock.held():
        if not lib.rvm_program_is_native(executable.handle):
            attach_native(executable, _image(executable, inline))


def make_profiled(executable: Executable) -> None:
    """Give an executable the instrumented code that measured runs of the engine `jit` use.

    Raises as `make_native` does.
    """
    with _lock.held():
        if lib.rvm_program_is_profiled(executable.handle):
            return
        base, functions, _ = _mapped(executable, _image(executable, True, profiled=True))
        if lib.rvm_program_set_profiled(executable.handle, base, functions) != 0:
            raise error("out-of-memory", "there is no memory for the native code")


def _image(executable: Executable, inline: bool, profiled: bool = False) -> Image:
    key = native_key(executable, inline, profiled)
    image = kernel_cache().get(key)
    if image is None:
        texts = {} if profiled else executable.texts
        image = _compiled(executable.program(), inline, profiled=profiled, texts=texts)
        kernel_cache().put(key, image)
    return image


def _compiled(program: Program, *arguments: Any, **options: Any) -> Image:
    with llvm_lock:  # a fork does not come in the middle of an import either
        # Not loaded by whoever finds all in the cache.
        from relayvm.vm.jit.compile import program_image

    return program_image(program, *arguments, **options)


def stored_code(program: Program, host: Host) -> NativeCode:
    """Return the code of a program's functions to be stored with it, from the cache or made now.

    It is for `host`, which runs this runtime. Loaded from a file it runs here unasked from now on.
    """
    texts = {
        number: kernel.image.texts[kernel.name]
        for number, kernel in enumerate(program.kernels)
        if kernel.image is not None and kernel.name in kernel.image.texts
    }
    key = _code_key(encoded_sections(program), texts, host)
    image = kernel_cache().get(key)
    if image is None:
        image = _compiled(program, host=host, texts=texts)
        kernel_cache().put(key, image)
    code = NativeCode(image, int(lib.rvm_native_abi()))
    kernel_cache().put_bytes(_stored_key(code), b"")
    return code


def is_own_code(code: NativeCode) -> bool:
    """Tell whether this user's cache knows stored code as made here.

    Such code is trusted: whoever can write to the cache can run code as this user anyway.
    """
    return kernel_cache().get_bytes(_stored_key(code)) is not None


def _stored_key(code: NativeCode) -> str:
    digest = hashlib.sha256(b"stored functions")
    digest.update(image_to_bytes(code.image))
    return digest.hexdigest()


def native_key(executable: Executable, inline: bool = True, profiled: bool = False) -> str:
    """Return the hash of all that an executable's code depends on here."""
    return _code_key(executable.section, executable.texts, this_host(), inline, profiled)


def _code_key(
    section: Callable[[str], Buffer],
    texts: Mapping[int, str],
    host: Host,
    inline: bool = True,
    profiled: bool = False,
) -> str:
    """Return the hash of all that code depends on: program, host, compiler.

    `section` gives the file's sections; code that is stored in it does not count.
    """
    digest = hashlib.sha256(f"{host} {inline} {profiled} {compiler_version()}".encode())
    for name in COMPILED_FROM:
        digest.update(section(name))
    for number, text in sorted(texts.items()):
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
    base, functions, margin = _mapped(executable, image)
    if lib.rvm_program_set_native(executable.handle, base, functions, margin) != 0:
        raise error("out-of-memory", "there is no memory for the native code")


def _mapped(executable: Executable, image: Image) -> tuple[Any, Any, int]:
    """Map an image; return its address, the offsets of functions and of what enters them, and the
    stack they need.
    """
    from relayvm.vm.executable import map_image

    base = map_image(executable.handle, image)
    pairs = list(zip(image.entries["functions"], image.entries["enter"]))
    (margin,) = image.entries["margin"]
    return base, ffi.new("rvm_image_function[]", pairs), margin

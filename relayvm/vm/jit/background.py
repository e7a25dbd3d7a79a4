"""The process that compiles a program for another: bytecode comes in by the standard input, native
code goes out by the standard output.

Its messages go nowhere, as it has no terminal: whoever asked sees code or none.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from typing import BinaryIO

from relayvm.base.abi import IMAGE_IMPORTS, Image
from relayvm.base.cache import kernel_cache
from relayvm.vm.file.decode import decode_sections
from relayvm.vm.file.format import SECTIONS
from relayvm.vm.jit.compile import program_image
from relayvm.vm.jit.host import Host

_MAGIC = 0x31564954414E5652
# As native_compile.c has made it already where threads have a niceness of their own.
_NICENESS = 10


def answer(request: str) -> None:
    """Compile what stands in the standard input, and keep it in the cache."""
    os.nice(max(0, _NICENESS - os.nice(0)))
    wanted = json.loads(request)
    source = os.fdopen(0, "rb", closefd=False)
    sections = {section.name: memoryview(_read(source)) for section in SECTIONS}
    texts = {int(number): text for number, text in json.loads(_read(source)).items()}
    threading.Thread(target=_end_with_asker, daemon=True).start()
    program = decode_sections(sections.__getitem__, constants=False)
    image = program_image(program, host=Host(**wanted["host"]), texts=texts)
    with os.fdopen(1, "wb", closefd=False) as out:
        out.write(image_answer(image))
    kernel_cache().put(wanted["key"], image)
    os._exit(0)  # the other thread is still reading


def image_answer(image: Image) -> bytes:
    """Return an image as native_compile.c takes it."""
    functions, enter = image.entries["functions"], image.entries["enter"]
    (margin,) = image.entries["margin"]
    code = image.code + bytes(-len(image.code) % 8)
    imports = [(IMAGE_IMPORTS.index(name), slot) for name, slot in image.imports]
    flat = [number for pair in (*zip(functions, enter), *imports) for number in pair]
    tables = struct.pack(f"={len(flat)}I", *flat)
    end = struct.pack("=3Q2I", _MAGIC, len(code), margin, len(functions), len(imports))
    return code + tables + end


def _read(source: BinaryIO) -> bytes:
    (size,) = struct.unpack("=Q", _exactly(source, 8))
    return _exactly(source, size)


def _exactly(source: BinaryIO, size: int) -> bytes:
    data = source.read(size)
    if len(data) != size:
        sys.exit(1)
    return data


def _end_with_asker() -> None:
    """End when the process that asked is gone, which is when the input ends."""
    os.read(0, 1)
    os._exit(1)

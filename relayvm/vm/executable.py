"""Executables: loading, what they hold, saving; and whether their native code may run."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from relayvm.base.abi import IMAGE_IMPORTS, Image, Kernel
from relayvm.base.diagnostics import RelayError, error
from relayvm.base.process import lazy_property
from relayvm.base.target import Target
from relayvm.vm.file.codec import encode_signature
from relayvm.vm.file.decode import (
    decode_kernels,
    decode_late_constants,
    decode_manifest,
    decode_native,
    decode_sections,
)
from relayvm.vm.file.format import (
    HEADER,
    PREFIX_BYTES,
    RECORDS,
    SECTION_NUMBER,
    SECTION_ROW,
    Buffer,
)
from relayvm.vm.library import ffi, lib
from relayvm.vm.manifest import Manifest
from relayvm.vm.program import LateConstant, Program

VERIFY_CONSTANTS = 1

Builder = Callable[[list[Kernel], Target], Sequence[Kernel]]
Trust = Callable[[Kernel], bool]


class Executable:
    """A verified program that can be run, saved and shared between threads.

    Made by `relayvm.compile` and `relayvm.load`.
    """

    def __init__(self, handle: Any) -> None:
        self.handle = handle
        # Functions of small kernels, for machine code to be made here: they are not in files.
        self.texts: dict[int, str] = {}

    @lazy_property
    def manifest(self) -> Manifest:
        """Entries with names and types of their parameters and results, data types, devices."""
        return decode_manifest(self.section)

    @property
    def entries(self) -> tuple[str, ...]:
        """Names of the functions that can be called."""
        return tuple(entry.name for entry in self.manifest.entries)

    def __repr__(self) -> str:
        size = sum(len(part) for part in self._parts())
        try:
            names = ", ".join(self.entries)
        except RelayError:
            names = "unreadable manifest"
        return f"Executable({names}; {size:,} bytes)"

    def adt(self, name: str) -> Any:
        """Return the data type of this name, whose attributes build its values.

        `exe.adt("Tree").Node(left, right)`; a type with parameters is named with them, as in
        `exe.adt("List[int32]")`. Raises RelayError `unknown-type`.
        """
        from relayvm.vm.convert import data_type

        return data_type(self, name)

    @lazy_property
    def late_constants(self) -> dict[str, LateConstant]:
        """The constants that it lacks, by name: see `split_constants`."""
        if not lib.rvm_program_num_late_constants(self.handle):
            return {}
        found = decode_late_constants(self.section)
        return {f"const_{number}": constant for number, constant in found.items()}

    def split_constants(self, least_bytes: int) -> tuple[Executable, dict[str, np.ndarray]]:
        """Return the executable without its constants of at least `least_bytes` bytes, and these by
        name, read-only.

        The first is smaller, in memory and as a file, and knows what it lacks: dtype, shape and a
        checksum of each. It runs once `with_constants` gave it back. This executable stays whole.
        Raises RelayError `late-constants` where one is missing already.
        """
        from relayvm.vm.late_constants import split_constants

        return split_constants(self, least_bytes)

    def with_constants(self, arrays: Mapping[str, Any]) -> Executable:
        """Return the executable with the constants that it lacks, which are `arrays` by name.

        It is as it was before `split_constants`, to the bit. Raises RelayError `wrong-constants`
        unless names, dtypes, shapes and checksums are right.
        """
        from relayvm.vm.late_constants import with_constants

        return with_constants(self, arrays)

    def program(self) -> Program:
        """Return what the executable holds, as data."""
        return decode_sections(self.section)

    def disassemble(self, data: bool = False) -> str:
        """Return the text of the program; with `data`, contents of constants as well."""
        from relayvm.vm.assembly import disassemble

        return disassemble(self.program(), data=data)

    def to_bytes(self) -> bytes:
        """Return the bytes of the file."""
        return b"".join(self._parts())

    def _parts(self) -> tuple[memoryview, memoryview]:
        """Return the file as it lies in memory: all but the constants, then these."""
        size = ffi.new("size_t *")
        first = lib.rvm_program_section(self.handle, 0, size)
        begin = PREFIX_BYTES + -PREFIX_BYTES % 64
        header = memoryview(ffi.buffer(first - begin, PREFIX_BYTES))
        row = HEADER.size + SECTION_ROW.size * SECTION_NUMBER["data"]
        _, _, offset, data_bytes, _ = SECTION_ROW.unpack_from(header, row)
        data = self.section("data")
        assert len(data) == data_bytes
        return memoryview(ffi.buffer(first - begin, offset)), data

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file: complete under its name, or not at all."""
        if not isinstance(path, (str, os.PathLike)):
            raise error("bad-option", f"a file is named by a path, not a `{type(path).__name__}`")
        target = Path(path)
        temporary = target.with_name(f".{target.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with open(temporary, "xb") as file:
                for part in self._parts():
                    file.write(part)
            os.replace(temporary, target)
        except OSError as reason:
            message = f"`{target}` cannot be written: {reason.strerror or reason}"
            raise error("unwritable-file", message) from None
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)

    def section(self, name: str) -> memoryview:
        """Return the bytes of a section of the file, by its name in `format.SECTIONS`."""
        if name not in SECTION_NUMBER:
            known = ", ".join(f"`{n}`" for n in SECTION_NUMBER)
            raise error("bad-option", f"a file has no section {name!r}; it has {known}")
        size, handle = ffi.new("size_t *"), self.handle
        begin = lib.rvm_program_section(handle, SECTION_NUMBER[name], size)
        holder = ffi.gc(begin, lambda _: handle)  # keeps the program while the bytes are in use
        return memoryview(ffi.buffer(holder, size[0]))

    def __reduce__(self) -> Any:
        raise TypeError("an Executable is not pickled; use `to_bytes` and `relayvm.load`")

    def __copy__(self) -> Executable:
        return self

    def __deepcopy__(self, memo: Any) -> Executable:
        return self


def load(
    path_or_bytes: str | os.PathLike[str] | bytes,
    native: bool = False,
    verify_constants: bool = False,
    builder: Builder | None = None,
    trust: Trust | None = None,
) -> Executable:
    """Return the executable in a file or in bytes, verified and with code for all its kernels.

    Stored native code runs if `native` allows all of it, or if `trust` says so of a kernel with its
    image; never where the CPU lacks a feature it needs. The other kernels are given to `builder`,
    which returns them with images made from their portable nests. Constants stay mapped from the
    file; `verify_constants` reads them all once to compare their checksum.

    Raises RelayError `bad-executable` (with the byte), `executable-version`, `checksum-mismatch`,
    `native-not-allowed`.
    """
    executable = read_executable(path_or_bytes, verify_constants)
    _link(executable, native, builder, trust)
    return executable


def read_executable(
    path_or_bytes: str | os.PathLike[str] | bytes, verify_constants: bool = False
) -> Executable:
    """Return the executable, verified, to be looked at and saved.

    Its kernels have no code, so that a machine takes it only if it has none; nothing of the file
    is run. Raises RelayError as `load` does, but for `native-not-allowed`.
    """
    return Executable(_open(path_or_bytes, VERIFY_CONSTANTS if verify_constants else 0))


def load_parts(parts: Sequence[Buffer], native: bool, kernels: Sequence[Kernel] = ()) -> Executable:
    """Return the executable whose bytes were just encoded as `parts`, which are copied once.

    With `native` its code, that of `kernels`, runs here, as with `load`; without, it is as
    `read_executable` returns it.
    """
    size, at = sum(map(len, parts)), 0
    failure = ffi.new("rvm_load_error *")
    memory = lib.rvm_file_memory(size, failure)
    if memory == ffi.NULL:
        raise _failed(failure)
    for part in parts:
        ffi.memmove(memory + at, part, len(part))
        at += len(part)
    handle = lib.rvm_load_memory(memory, size, 0, failure)
    if handle == ffi.NULL:
        raise _failed(failure)
    executable = Executable(ffi.gc(handle, lib.rvm_program_release))
    if native:
        _link(executable, True, None, None)
        for number, kernel in enumerate(kernels):
            _keep_text(executable, number, kernel)
    return executable


def _open(path_or_bytes: str | os.PathLike[str] | bytes, options: int) -> Any:
    failure = ffi.new("rvm_load_error *")
    if isinstance(path_or_bytes, (bytes, bytearray, memoryview)):
        data = ffi.from_buffer(path_or_bytes)
        handle = lib.rvm_load_bytes(data, len(data), options, failure)
    elif not isinstance(path_or_bytes, (str, os.PathLike)):
        message = f"a file is a path or bytes, not a `{type(path_or_bytes).__name__}`"
        raise error("bad-option", message)
    else:
        path = os.fsencode(path_or_bytes)
        if b"\0" in path:
            raise error("bad-executable", f"{os.fsdecode(path)!r} is no path: it has a zero byte")
        handle = lib.rvm_load_file(path, options, failure)
    if handle == ffi.NULL:
        raise _failed(failure)
    return ffi.gc(handle, lib.rvm_program_release)


def _failed(failure: Any) -> RelayError:
    code = ffi.string(failure.code).decode()
    return error(code, ffi.string(failure.message).decode(errors="replace"))


# --- native code ---------------------------------------------------------------------------------


def _link(
    executable: Executable, native: bool, builder: Builder | None, trust: Trust | None
) -> None:
    handle = executable.handle
    images = _stored_images(executable)
    if lib.rvm_program_first_unlinked(handle) >= 0 and not (native and _link_all(handle, images)):
        kernels = decode_kernels(executable.section)
        missing: list[int] = []
        mapped: dict[int, Any] = {}
        for number, kernel in enumerate(kernels):
            if not _is_usable(kernel, native, trust) or not _attach(handle, number, kernel, mapped):
                missing.append(number)
        if missing:
            _build(executable, kernels, missing, builder)
    for image in images:
        if image.has_functions and image.can_run and (native or _is_own(executable)):
            _link_image(handle, image)


class _StoredImage(NamedTuple):
    number: int
    can_run: bool
    has_functions: bool


def _stored_images(executable: Executable) -> list[_StoredImage]:
    strings = executable.section("strings")
    record = RECORDS["images"]
    rows = record.layout.iter_unpack(executable.section("images"))
    found = []
    for number, values in enumerate(rows):
        row = dict(zip(record.field_names, values))
        triple, features = (
            bytes(strings[row[f"{name}_begin"] :][: row[f"{name}_bytes"]]).decode()
            for name in ("triple", "features")
        )
        runs = can_run(triple, features.split(","))
        found.append(_StoredImage(number, runs, row["num_functions"] > 0))
    return found


def _link_all(handle: Any, images: Sequence[_StoredImage]) -> bool:
    """Link the images of kernels if every one can run here and they cover every kernel."""
    of_kernels = [image for image in images if not image.has_functions]
    if not all(image.can_run for image in of_kernels):
        return False
    for image in of_kernels:
        _link_image(handle, image)
    return bool(lib.rvm_program_first_unlinked(handle) < 0)


def _link_image(handle: Any, image: _StoredImage) -> None:
    if lib.rvm_program_link_image(handle, image.number) != 0:
        raise error("out-of-memory", "there is no memory for the native code")


def _is_own(executable: Executable) -> bool:
    from relayvm.vm.jit.engine import is_own_code

    code = decode_native(executable.section)
    return code is not None and is_own_code(code)


def _is_usable(kernel: Kernel, native: bool, trust: Trust | None) -> bool:
    image = kernel.image
    if image is None or not (native or (trust is not None and trust(kernel))):
        return False
    return can_run(image.triple, image.features)


def can_run(triple: str, features: Sequence[str]) -> bool:
    """Tell whether code for `triple` that needs `features` (LLVM's names) runs on this CPU."""
    arch, _, rest = triple.partition("-")
    names = {"amd64": "x86_64", "arm64": "aarch64"}
    host = names.get(platform.machine().lower(), platform.machine().lower())
    if names.get(arch, arch) != host or (rest and platform.system().lower() not in _systems(rest)):
        return False
    encoded = [f.removeprefix("+").encode() for f in features if f and not f.startswith("-")]
    return all(lib.rvm_host_has_feature(f, len(f)) for f in encoded)


def _systems(rest: str) -> str:
    return rest.lower().replace("macosx", "darwin")


def _attach(handle: Any, number: int, kernel: Kernel, mapped: dict[int, Any]) -> bool:
    """Map a kernel's image, if not yet mapped, and set its phases; False if it lacks them."""
    image = kernel.image
    if image is None or kernel.name not in image.entries:
        return False
    offsets = image.entries[kernel.name]
    if len(offsets) != len(kernel.signature.phases) or max(offsets) >= len(image.code):
        return False
    if id(image) not in mapped:
        mapped[id(image)] = map_image(handle, image)
    base = mapped[id(image)]
    for phase, offset in enumerate(offsets):
        lib.rvm_program_set_phase(handle, number, phase, base + offset)
    return True


def map_image(handle: Any, image: Image) -> Any:
    """Map an image for as long as a program lives; return its address."""
    imports = ffi.new("rvm_image_import[]", len(image.imports))
    for row, (name, slot) in zip(imports, image.imports):
        row.symbol, row.slot = IMAGE_IMPORTS.index(name), slot
    address = lib.rvm_program_map_code(
        handle, image.code, len(image.code), imports, len(image.imports)
    )
    if address == ffi.NULL:
        raise error("out-of-memory", "there is no memory for the native code")
    return ffi.cast("const char *", address)


def _keep_text(executable: Executable, number: int, kernel: Kernel) -> None:
    """Keep the function of a kernel whose code, made with it, is linked."""
    if kernel.image is not None and kernel.name in kernel.image.texts:
        executable.texts[number] = kernel.image.texts[kernel.name]


def _build(
    executable: Executable,
    kernels: Sequence[Kernel],
    missing: list[int],
    builder: Builder | None,
) -> None:
    names = f"`{kernels[missing[0]].name}`"
    if len(missing) > 1:
        names += f" and {len(missing) - 1} more"
    if builder is None:
        raise _not_allowed(names, "nothing here builds kernels")
    wanted = [kernels[n] for n in missing]
    try:
        built = builder(wanted, Target())
    except ImportError as reason:
        raise _not_allowed(names, f"kernels cannot be built: {reason}") from None
    mapped: dict[int, Any] = {}
    for number, old, new in zip(missing, wanted, built):
        if encode_signature(old.signature) != encode_signature(new.signature):
            raise error(
                "bad-executable",
                f"kernel `{old.name}` has another signature than its portable nest",
            )
        if not _attach(executable.handle, number, new, mapped):
            raise _not_allowed(f"`{old.name}`", "the builder made no code for it")
        _keep_text(executable, number, new)


def _not_allowed(names: str, reason: str) -> RelayError:
    return error(
        "native-not-allowed",
        f"kernel {names} has no native code that may run here, and {reason}",
        help="load with `native=True` if you trust the file, "
        "or install llvmlite so that its portable kernels can be compiled",
    )

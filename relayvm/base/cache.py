"""The disk cache of nests and of compiled code: content-addressed, private to the user, bounded,
safe against damage and races.

An entry's name is a hash of everything its code depends on, so entries never go stale; a damaged
one is dropped.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import struct
import tempfile
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

from relayvm.base.abi import Image
from relayvm.base.process import RenewedLock
from relayvm.base.settings import setting

_MAGIC = b"RVMKERN1"
_DIGEST_BYTES = 32
# The end of the keys of nests.
NEST = ".nest"
# How the names of files begin that are being written; whoever is killed leaves them.
_UNFINISHED = ".new-"
# Files are listed when what was written since the last time may be too much. Listing brings the
# cache this far under its limit, so that an eighth of it is written before the next.
_KEPT_EIGHTHS = 7
_log = logging.getLogger("relayvm")


@dataclass(frozen=True, slots=True)
class CacheInfo:
    """What the cache holds: images of kernels, and nests, which `size_bytes` counts too.

    `folder` is None where it is not used: it is turned off, or has the `fault`.
    """

    folder: Path | None
    entries: int
    size_bytes: int
    limit_bytes: int
    fault: str | None = None


class KernelCache:
    """Images and nests by key, in one folder; a failing disk is a miss, never an error."""

    def __init__(self, folder: Path | None, limit_bytes: int) -> None:
        self.folder = folder / "kernels" if folder else None
        self.limit_bytes = limit_bytes
        self._fault = _make_private(self.folder) if self.folder else None
        if self._fault:
            self._fault = f"`{self.folder}` {self._fault}"
            _log.warning("the kernel cache is not used: %s", self._fault)
            self.folder = None
        self._sizes = _Sizes(self.folder / "sizes") if self.folder else None

    def get(self, key: str) -> Image | None:
        """Return the image under `key`, or None."""
        payload = self.get_bytes(key)
        return None if payload is None else image_from_bytes(payload)

    def put(self, key: str, image: Image) -> None:
        """Keep an image."""
        self.put_bytes(key, image_to_bytes(image))

    def get_bytes(self, key: str) -> bytes | None:
        """Return what is kept under `key`, or None; an entry that is damaged is removed."""
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        payload = _checked(data)
        if payload is None:
            _log.warning("kernel cache entry %s is damaged, dropped", path)
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        return payload

    def put_bytes(self, key: str, payload: bytes) -> None:
        """Keep some bytes; readers see all of them or nothing."""
        if self.folder is None or self.limit_bytes == 0:
            return
        data = _MAGIC + hashlib.sha256(payload).digest() + payload
        path = self._path(key)
        try:
            try:
                _write(path, data)
            except FileNotFoundError:  # somebody has removed the folder, or is about to
                _make_private(self.folder)
                _write(path, data)
        except OSError as reason:
            _log.warning("kernel cache entry %s cannot be written: %s", path, reason)
            return
        assert self._sizes is not None
        written = self._sizes.add(len(data))
        if written is None or written > self.limit_bytes:
            self._trim_to(self.limit_bytes // 8 * _KEPT_EIGHTHS)

    def trim(self) -> None:
        """Remove the oldest entries until the cache is within its limit."""
        self._trim_to(self.limit_bytes)

    def _trim_to(self, kept_bytes: int) -> None:
        """List the entries; if they are beyond the limit, remove the oldest until so much is
        left.
        """
        entries = sorted(self._entries(), key=lambda e: e[1].st_mtime_ns)
        size = sum(status.st_size for _, status in entries)
        most = kept_bytes if size > self.limit_bytes else size
        for path, status in entries:
            if size <= most:
                break
            with contextlib.suppress(OSError):
                path.unlink()
                size -= status.st_size
        if self._sizes is not None:
            self._sizes.restart(size)

    def clear(self) -> None:
        """Remove every entry."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            _make_private(self.folder)

    def info(self) -> CacheInfo:
        """Return what the cache holds now."""
        entries = list(self._entries())
        names = [path.name for path, _ in entries]
        images = sum(not (n.endswith(NEST) or n.startswith(_UNFINISHED)) for n in names)
        size = sum(status.st_size for _, status in entries)
        return CacheInfo(self.folder, images, size, self.limit_bytes, self._fault)

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / key[:2] / key[2:]

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        if self.folder is None:
            return
        for path in self.folder.glob("??/*"):
            with contextlib.suppress(OSError):
                yield path, path.stat()


class _Sizes:
    """The sizes of all that was written since the files were last listed, in a file that every
    process appends to: their sum is never less than what the cache holds, and costs no listing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known = ((0, 0), 0, 0)  # device and inode, how much of it was read, its sum
        self._lock = RenewedLock()

    def add(self, size: int) -> int | None:
        """Note a size; return the sum of all, None if nobody has listed the files yet."""
        try:
            while True:
                # Appended at once: processes that write at the same time lose nothing.
                with open(self._path, "r+b", buffering=0, opener=_to_append) as file:
                    file.write(struct.pack("=q", size))
                    # Whoever restarts replaces the file: what was noted in the old one is lost.
                    if os.path.samestat(os.fstat(file.fileno()), self._path.stat()):
                        return self._sum_of(file)
        except OSError:
            return None

    def restart(self, size: int) -> None:
        """Forget all sizes: the files were listed, and this is what they take."""
        with contextlib.suppress(OSError):
            _write(self._path, struct.pack("=q", size))

    def _sum_of(self, file: FileIO) -> int | None:
        """Return the sum, of which only what is new is read; None for what cannot be sizes."""
        status = os.fstat(file.fileno())
        identity = (status.st_dev, status.st_ino)
        with self._lock.held():
            known, read, total = self._known
            if known != identity:
                read = total = 0
            file.seek(read)
            data = file.read()
            sizes = array("q", data[: len(data) // 8 * 8])
            if len(data) % 8 or min(sizes, default=0) < 0 or status.st_size < read:
                return None
            total += sum(sizes)
            self._known = (identity, read + len(data), total)
            return total


def _to_append(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_APPEND)


def _make_private(folder: Path) -> str | None:
    """Create the folder for this user alone; return why it cannot be used, None if it can."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except OSError as reason:
        return f"cannot be made: {reason.strerror or reason}"
    if status.st_uid != os.getuid():
        return "belongs to another user"
    return "can be written by others" if status.st_mode & 0o022 else None


def _write(path: Path, data: bytes) -> None:
    """Put a whole file in its place, or raise OSError and leave nothing."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _checked(data: bytes) -> bytes | None:
    start = len(_MAGIC) + _DIGEST_BYTES
    payload = data[start:]
    intact = data.startswith(_MAGIC) and hashlib.sha256(payload).digest() == data[8:start]
    return payload if intact else None


def image_to_bytes(image: Image) -> bytes:
    """Return an image as bytes: length of the head, head as JSON, code."""
    head = {
        "triple": image.triple,
        "features": image.features,
        "entries": image.entries,
        "imports": image.imports,
        "texts": image.texts,
    }
    text = json.dumps(head).encode()
    return struct.pack("<I", len(text)) + text + image.code


def image_from_bytes(data: bytes) -> Image:
    """Return the image that `image_to_bytes` wrote."""
    (size,) = struct.unpack_from("<I", data)
    head = json.loads(data[4 : 4 + size])
    return Image(
        triple=head["triple"],
        features=tuple(head["features"]),
        code=data[4 + size :],
        entries={name: tuple(offsets) for name, offsets in head["entries"].items()},
        imports=tuple((name, offset) for name, offset in head["imports"]),
        texts=head["texts"],
    )


_caches: dict[tuple[Path | None, int], KernelCache] = {}


def kernel_cache() -> KernelCache:
    """Return the cache that the settings name."""
    folder, limit = setting("RELAYVM_CACHE"), setting("RELAYVM_CACHE_MIB")
    assert folder is None or isinstance(folder, Path)
    assert isinstance(limit, int)
    key = (folder, limit)
    if key not in _caches:
        _caches[key] = KernelCache(folder, limit << 20)
    return _caches[key]


def cache_info() -> CacheInfo:
    """Return what the kernel cache holds."""
    return kernel_cache().info()


def clear_cache() -> CacheInfo:
    """Remove every compiled kernel from the cache; return what the disk did not let go."""
    kernel_cache().clear()
    return cache_info()

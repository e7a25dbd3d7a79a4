"""`tvm.contrib.utils`: temporary folders."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import IO


class TempDirectory:
    """A folder that is removed with the object."""

    def __init__(self, custom_path: str | None = None, keep_for_debug: bool | None = None) -> None:
        self.temp_dir = custom_path or tempfile.mkdtemp()
        if custom_path is not None:
            os.mkdir(custom_path)
        self._remove = weakref.finalize(self, shutil.rmtree, self.temp_dir, ignore_errors=True)
        if custom_path is not None or keep_for_debug:
            self._remove.detach()

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.temp_dir)

    def relpath(self, name: str) -> str:
        """Return the path of a name in the folder."""
        return os.path.join(self.temp_dir, name)

    def listdir(self) -> list[str]:
        """Return the names in the folder."""
        return os.listdir(self.temp_dir)

    def remove(self) -> None:
        """Remove the folder, unless it is the user's or is kept."""
        self._remove()

    def __truediv__(self, other: str) -> Path:
        return self.path / other

    def __enter__(self) -> TempDirectory:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def tempdir(custom_path: str | None = None, keep_for_debug: bool | None = None) -> TempDirectory:
    """Return a new folder that is removed with the object."""
    return TempDirectory(custom_path, keep_for_debug)


class FileLock:
    """A lock that processes share by the name of a file; made locked."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.lock_file: IO[str] | None = open(path, "w", encoding="utf-8")  # noqa: SIM115
        fcntl.lockf(self.lock_file, fcntl.LOCK_EX)

    def release(self) -> None:
        """Let others have the lock."""
        if self.lock_file is not None:
            fcntl.lockf(self.lock_file, fcntl.LOCK_UN)
            self.lock_file.close()
            self.lock_file = None


def filelock(path: str | os.PathLike[str]) -> FileLock:
    """Return a lock on a file as soon as it is free."""
    return FileLock(path)


def is_source_path(path: str) -> bool:
    """Tell whether a text is the path of a file, or could be: one line with an ending."""
    if os.path.exists(path):
        return True
    _, dot, ending = path.rpartition(".")
    return "\n" not in path and bool(dot) and ending == ending.strip()


def which(exec_name: str) -> str | None:
    """Return the path of a program, None where there is none."""
    return shutil.which(exec_name)

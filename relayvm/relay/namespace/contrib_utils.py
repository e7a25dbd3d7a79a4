"""`tvm.contrib.utils`: temporary folders."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from pathlib import Path


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

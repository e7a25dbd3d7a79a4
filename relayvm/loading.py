"""Files to executables: the machine's loader, and the compiler of kernels once one is needed."""

from __future__ import annotations

import os
from collections.abc import Sequence

from relayvm.base.abi import Kernel
from relayvm.base.native.own_code import with_own_code
from relayvm.base.settings import setting
from relayvm.base.target import Target
from relayvm.vm.executable import Executable
from relayvm.vm.executable import load as load_executable


def load(
    path_or_bytes: str | os.PathLike[str] | bytes,
    native: bool = False,
    verify_constants: bool = False,
) -> Executable:
    """Return the executable in a file or in bytes, after verifying it.

    Native code in it runs if `native` says so or if this user's own cache holds the same code;
    otherwise it is compiled again from the portable kernels in the file.
    """
    return load_executable(
        path_or_bytes, native=native, verify_constants=verify_constants, builder=_with_code
    )


def _with_code(kernels: Sequence[Kernel], target: Target) -> Sequence[Kernel]:
    """Return kernels with code; their compiler is imported where the cache lacks some of it."""
    found = with_own_code(kernels, target)
    # Whoever keeps what the compiler makes wants to see it made.
    if found is not None and setting("RELAYVM_KEEP") is None:
        return found
    from relayvm.kernels.build import build_native

    return build_native(kernels, target)

"""`tvm.target.codegen`: the code generator."""

from __future__ import annotations

from relayvm.kernels.codegen.llvm import version
from relayvm.relay.lazy import absent


def llvm_version_major(allow_none: bool = False) -> int:
    """Return the major version of the LLVM that compiles kernels."""
    return version()[0]


__getattr__ = absent("relayvm.target.codegen")

"""`tvm.contrib.nvcc`: what CUDA devices of a compute capability can do."""

from __future__ import annotations

from relayvm.base.diagnostics import error
from relayvm.relay.lazy import absent


def parse_compute_version(compute_version: str) -> tuple[int, int]:
    """Return a compute capability such as `8.6` as two numbers; raises RelayError
    `unknown-target` for what is none.
    """
    major, dot, minor = compute_version.partition(".")
    if not (major.isdecimal() and (minor.isdecimal() or not dot)):
        raise error("unknown-target", f"`{compute_version}` is no compute capability, such as 8.6")
    return int(major), int(minor or 0)


def have_fp16(compute_version: str) -> bool:
    """Return whether devices of a compute capability have float16: 5.3, and 6.0 and later."""
    version = parse_compute_version(compute_version)
    return version == (5, 3) or version >= (6, 0)


__getattr__ = absent("relayvm.contrib.nvcc")

"""Code of kernels in this user's own cache, which is trusted wherever the kernels come from.

Whoever can write to the cache can run code as this user anyway. Finding code needs nothing of the
room that makes it but the bytes of its sources.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from relayvm.base import cache as cache_module
from relayvm.base import link as link_module
from relayvm.base.abi import Image, Kernel, KernelSignature
from relayvm.base.cache import kernel_cache
from relayvm.base.dims import Dim, DimVar
from relayvm.base.link import merge_images
from relayvm.base.native.cpu import target_cpu
from relayvm.base.native.plain_dims import decode_dim, encode_dim
from relayvm.base.target import Target

_HERE = Path(__file__).parent
_KERNELS = _HERE.parents[1] / "kernels"


def with_own_code(kernels: Sequence[Kernel], target: Target) -> list[Kernel] | None:
    """Return the kernels with one image of code that was all found; None where some was not, or
    where two have the same name.
    """
    if len({kernel.name for kernel in kernels}) < len(kernels):
        return None
    keys = [kernel_key(kernel, target) for kernel in kernels]
    images = found_images(keys)
    return with_images(kernels, keys, images) if len(images) == len(set(keys)) else None


def found_images(keys: Sequence[str]) -> dict[str, Image]:
    """Return the images that the cache holds, by key."""
    cache = kernel_cache()
    found = ((key, cache.get(key)) for key in dict.fromkeys(keys))
    return {key: image for key, image in found if image is not None}


def with_images(
    kernels: Sequence[Kernel], keys: Sequence[str], images: dict[str, Image]
) -> list[Kernel]:
    """Return kernels that share one image, put together from those of their keys."""
    merged = merge_images([(k.name, images[key]) for key, k in zip(keys, kernels)])
    return [replace(kernel, image=merged) for kernel in kernels]


def kernel_key(kernel: Kernel, target: Target) -> str:
    """Return the hash of all that a kernel's code depends on: nest, sharing, CPU, compiler."""
    body = kernel.nest.removeprefix(f"nest @{kernel.name} ")
    # The whole signature, so that a hit says that this pair of nest and signature was checked.
    parts = [body, signature_text(kernel.signature), target_cpu(target).description]
    parts.append(compiler_version())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def signature_text(signature: KernelSignature) -> str:
    """Return a signature as text that depends on no name of a dim variable."""
    numbers = {v: k for k, v in enumerate(signature.dim_vars)}
    names = [DimVar(f"d{k}") for k in range(len(numbers))]

    def dims(values: tuple[Dim, ...]) -> tuple[Dim, ...]:
        # As they are: `broadcast(m, 8)`, which a check compares with 8, must not become 8.
        return tuple(decode_dim(encode_dim(d, numbers), names) for d in values)

    operands = tuple(replace(o, dims=dims(o.dims)) for o in signature.operands)
    checks = tuple((*dims((c.a, c.b)), c.what) for c in signature.checks)
    memory = (signature.scratch_bytes, signature.private_bytes)
    sizes = dims((*memory, signature.work, *signature.phases, *signature.chains))
    return repr((operands, signature.sources, checks, signature.in_place, sizes))


@functools.lru_cache(maxsize=1)
def compiler_version() -> str:
    """Return what identifies the compiler of kernels: LLVM's binding, and the sources of the room
    and of what it takes from here.
    """
    digest = hashlib.sha256()
    paths = [*sorted(_KERNELS.rglob("*.py")), *sorted(_HERE.glob("*.py"))]
    paths += [Path(str(module.__file__)) for module in (link_module, cache_module)]
    binding = importlib.util.find_spec("llvmlite")
    if binding is not None and binding.origin is not None:
        # Read, not imported: what finds all in the cache must not load LLVM.
        paths.append(Path(binding.origin).with_name("_version.py"))
    for path in paths:
        digest.update(path.read_bytes())
    return digest.hexdigest()

"""Building kernels: from tensor expressions to a portable nest, a signature and native code,
through cache and pool.

Says what to build and in which order; the steps are in `lower`, `schedule`, `codegen`, `link`,
`cache` and `pool`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from relayvm.base.abi import DimCheck, DimSource, Image, Kernel
from relayvm.base.cache import NEST, kernel_cache
from relayvm.base.diagnostics import error
from relayvm.base.dims import DimVar
from relayvm.base.native.own_code import compiler_version, found_images, kernel_key, with_images
from relayvm.base.settings import setting
from relayvm.base.target import Target
from relayvm.kernels import lower, pool
from relayvm.kernels.codegen.contract import check_contract
from relayvm.kernels.compute import Tensor
from relayvm.kernels.loops import Nest
from relayvm.kernels.parser import parse_nest
from relayvm.kernels.printer import print_nest
from relayvm.kernels.schedule import schedule
from relayvm.kernels.schedules.machine import cache_bytes, vector_registers
from relayvm.kernels.stored import computation_key, kernel_from_bytes, kernel_to_bytes
from relayvm.kernels.verify import verify_nest


@dataclass(frozen=True, eq=False)
class KernelRequest:
    """A kernel to build.

    `dim_sources` gives each dim variable, in ABI order, with the input and axis it is read from
    (axis -1: the value of a scalar input). `strided` holds the numbers of inputs that may be
    broadcast at run time; `may_reuse` allows outputs in the memory of inputs.
    """

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    dim_sources: tuple[tuple[DimVar, int, int], ...] = ()
    checks: tuple[DimCheck, ...] = ()
    strided: frozenset[int] = field(default_factory=frozenset)
    may_reuse: bool = True


def build_kernels(
    requests: Sequence[KernelRequest],
    target: Target,
    *,
    opt_level: int = 3,
    native: bool = True,
) -> list[Kernel]:
    """Return the kernels in the order of the requests, whose names must differ; level 0 takes
    naive nests.

    With `native` all share one image for `target`; without, they hold portable nests only.
    """
    nests: dict[str, Nest] = {}
    kernels = [_portable(request, target, opt_level, nests) for request in requests]
    return _with_images(kernels, target, checked=True, nests=nests) if native else kernels


def _portable(
    request: KernelRequest, target: Target, opt_level: int, nests: dict[str, Nest]
) -> Kernel:
    """Return a kernel without code; a nest that had to be scheduled is added, by its text."""
    computation = lower.Computation(
        request.name,
        request.inputs,
        request.outputs,
        tuple(variable for variable, _, _ in request.dim_sources),
        request.strided,
        lower.joined_sizes(request.inputs, request.strided, request.checks),
    )
    sources = tuple(DimSource(operand, axis) for _, operand, axis in request.dim_sources)
    cache = kernel_cache()
    if cache.folder is None:
        return _scheduled(computation, request, sources, target, opt_level, nests)
    machine = (vector_registers(target), cache_bytes(target)) if opt_level else ()
    settings = (*machine, request.may_reuse, compiler_version())
    key = computation_key(computation, request.checks, settings) + NEST
    data = cache.get_bytes(key)
    if data is not None:
        return kernel_from_bytes(data, computation, sources, request.checks)
    kernel = _scheduled(computation, request, sources, target, opt_level, nests)
    cache.put_bytes(key, kernel_to_bytes(kernel))
    return kernel


def _scheduled(
    computation: lower.Computation,
    request: KernelRequest,
    sources: tuple[DimSource, ...],
    target: Target,
    opt_level: int,
    nests: dict[str, Nest],
) -> Kernel:
    nest = schedule(computation, target, opt_level)
    signature = lower.kernel_signature(
        computation, nest, sources, request.checks, request.may_reuse
    )
    text = print_nest(nest)
    nests[text] = nest
    return Kernel(request.name, text, signature)


def build_native(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """Return kernels from anywhere with native code for `target`, from the cache or compiled now.

    A nest is verified, and compared with its signature, before it is compiled. Raises RelayError
    `bad-nest` or `bad-executable` where it fails, `native-not-allowed` where something must be
    compiled and llvmlite is not installed.
    """
    return _with_images(kernels, target, checked=False, nests={})


def _with_images(
    kernels: Sequence[Kernel], target: Target, checked: bool, nests: Mapping[str, Nest]
) -> list[Kernel]:
    if not kernels:
        return []
    names = [kernel.name for kernel in kernels]
    if len(set(names)) < len(names):
        double = next(n for n in names if names.count(n) > 1)
        raise error("bad-executable", f"two kernels are called `{double}`")
    keys = [kernel_key(kernel, target) for kernel in kernels]
    images = found_images(keys)
    missing: dict[str, Kernel] = {}
    for key, kernel in zip(keys, kernels):
        if key not in images:
            missing.setdefault(key, kernel)
    if missing:
        if not checked:
            _check(missing.values())
        compiled = _compile(list(missing.values()), target, nests)
        for key, image in zip(missing, compiled):
            kernel_cache().put(key, image)
            images[key] = image
    _keep(kernels, target)
    return with_images(kernels, keys, images)


def _check(kernels: Iterable[Kernel]) -> None:
    """Raise a RelayError where a kernel that came from elsewhere is not safe to compile."""
    for kernel in kernels:
        nest = parse_nest(kernel.nest)
        verify_nest(nest)
        check_contract(nest, kernel.signature)


def _job(kernel: Kernel, target: Target) -> pool.Job:
    return pool.Job(kernel.name, kernel.nest, kernel.signature.in_place, str(target))


def _compile(kernels: Sequence[Kernel], target: Target, nests: Mapping[str, Nest]) -> list[Image]:
    if not compiler_available():
        raise error(
            "native-not-allowed",
            "native code must be compiled here, and llvmlite is not installed",
            help="install llvmlite, or load the file with `native=True` if you trust it",
        )
    return pool.compile_jobs([_job(kernel, target) for kernel in kernels], nests)


def compiler_available() -> bool:
    """Return whether llvmlite is installed, without importing it."""
    return importlib.util.find_spec("llvmlite") is not None


def _keep(kernels: Sequence[Kernel], target: Target) -> None:
    folder = setting("RELAYVM_KEEP")
    if not isinstance(folder, Path) or not compiler_available():
        return
    from relayvm.kernels.codegen.kernel import keep_artifacts

    for kernel in kernels:
        keep_artifacts(_job(kernel, target), folder)

"""Code of scheduled computations, of every family and on any target, has the naive nest's bits."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from relayvm.base.abi import Access
from relayvm.base.dims import dim_value
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import lower
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.schedule import schedule

from .computations import FAMILIES, Random
from .images import LoadedImage, own_memory

NAMES = [(family, f"{family.__name__}{number}") for family in FAMILIES for number in range(3)]
CASES = {name: family(Random(zlib.crc32(name.encode()))) for family, name in NAMES}


@pytest.fixture(scope="module")
def built():
    cpu = target_cpu(Target())
    nests = {name: schedule(case.computation) for name, case in CASES.items()}
    entries = {k: tuple(f"{k}.{p}" for p in range(len(nest.phases))) for k, nest in nests.items()}
    text = "\n".join(nest_functions(nest, name, (), cpu) for name, nest in nests.items())
    data = compile_object(module_text(text, cpu), cpu, speed=1)
    return nests, LoadedImage(link_object(data, cpu.triple, cpu.features, entries))


def _strides(array):
    steps = np.cumprod((1, *array.shape[:0:-1]))[::-1]
    return [0 if size == 1 else int(step) for size, step in zip(array.shape, steps)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_code_has_the_bits_of_the_naive_nest(built, name):
    nests, image = built
    case = CASES[name]
    signature = lower.kernel_signature(case.computation, nests[name], ())
    sizes = {v: case.dims[v.name] for v in case.computation.dim_vars}
    expected = interpret(lower.lower(case.computation), case.arrays, case.dims)
    results = [
        np.empty([dim_value(d, sizes) for d in o.dims], o.dtype.numpy) for o in signature.outputs
    ]
    arrays = [np.ascontiguousarray(a) for a in case.arrays]
    dims = list(sizes.values())
    for operand, array in zip(signature.operands, arrays):
        if operand.access is Access.STRIDED:
            dims += _strides(array)
    extents = [dim_value(p, sizes) for p in signature.phases]
    memory_bytes = own_memory(signature, sizes)
    assert image.call(name, [*arrays, *results], dims, extents, *memory_bytes) == 0
    for result, wanted in zip(results, expected, strict=True):
        assert result.tobytes() == wanted.reshape(result.shape).tobytes(), case.dims

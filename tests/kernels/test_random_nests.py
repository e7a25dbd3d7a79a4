"""Random computations: scheduled code gives the bits of the naive nest on the interpreter."""

import random

import numpy as np
import pytest

from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import BOOL, BY_NAME, dtype_of
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels import lower
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.scalar_ops import SCALAR_OPS
from relayvm.kernels.schedule import schedule
from tests.kernels.images import LoadedImage, own_memory

COUNT = 40
N, M = DimVar("n"), DimVar("m")
DN, DM = symbol(N), symbol(M)
SIZES = [(3, 37), (17, 16), (1, 5)]
NAMES = ("float32", "float64", "float16", "bfloat16", "int32", "int8", "uint16", "bool")
DTYPES = [BY_NAME[name] for name in NAMES]
REDUCTIONS = {True: ("any", "all"), False: ("sum", "max", "min", "prod")}


class Maker:
    """Makes one random computation from a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.inputs = []

    def computation(self, name):
        first = self.matrix(self.random.choice(DTYPES))
        outputs = [first]
        if self.random.random() < 0.6:
            outputs.append(self.reduced(first))
            if self.random.random() < 0.5:
                total = outputs[-1]
                along_rows = total.shape == (DN,)
                mixed = te.compute(
                    (DN, DM),
                    lambda i, j: self.combine(first[i, j], total[i if along_rows else j]),
                )
                outputs = [mixed]
        return lower.Computation(name, tuple(self.inputs), tuple(outputs), (N, M))

    def matrix(self, dtype):
        """Return an element-wise tensor of a random expression."""
        return te.compute((DN, DM), lambda i, j: self.expression(dtype, i, j, 3))

    def reduced(self, tensor):
        kind = self.random.choice(REDUCTIONS[tensor.dtype is BOOL])
        if self.random.random() < 0.5:
            return te.compute((DN,), lambda i: te.reduce(kind, (DM,), lambda k: tensor[i, k]))
        return te.compute((DM,), lambda j: te.reduce(kind, (DN,), lambda k: tensor[k, j]))

    def combine(self, a, b):
        names = [n for n, op in SCALAR_OPS.items() if op.arity == 2 and a.dtype in op.dtypes]
        return te.scalar(self.random.choice(sorted(names)), a, b)

    def load(self, dtype, i, j):
        known = [t for t in self.inputs if t.dtype is dtype]
        if not known or (len(self.inputs) < 4 and self.random.random() < 0.5):
            shape = self.random.choice([(DN, DM), (DN, DM), (DM,), (DN,), (DM, DN)])
            known = [te.placeholder(f"x{len(self.inputs)}", shape, dtype)]
            self.inputs += known
        tensor = self.random.choice(known)
        places = {DN: i, DM: j}
        return tensor[tuple(places[d] for d in tensor.shape)]

    def expression(self, dtype, i, j, depth):
        """Return a random expression of a dtype over loads at (i, j)."""
        choice = self.random.random()
        if depth == 0 or choice < 0.1:
            return self.load(dtype, i, j)
        if choice < 0.2:
            source = self.random.choice(DTYPES)
            return te.cast(self.expression(source, i, j, depth - 1), dtype)
        if choice < 0.3:
            condition = self.expression(BOOL, i, j, depth - 1)
            a, b = (self.expression(dtype, i, j, depth - 1) for _ in range(2))
            return te.select(condition, a, b)
        source = dtype
        if dtype is BOOL and choice < 0.8:
            source = self.random.choice(DTYPES)
        op = self.random.choice(
            [
                op
                for _, op in sorted(SCALAR_OPS.items())
                if source in op.dtypes and op.result(source) is dtype
            ]
        )
        operands = (self.expression(source, i, j, depth - 1) for _ in range(op.arity))
        return te.scalar(op.name, *operands)


COMPUTATIONS = {f"r{seed}": Maker(seed).computation(f"r{seed}") for seed in range(COUNT)}


@pytest.fixture(scope="module")
def built():
    cpu = target_cpu(Target())
    nests = {name: schedule(c) for name, c in COMPUTATIONS.items()}
    entries = {n: tuple(f"{n}.{p}" for p in range(len(nest.phases))) for n, nest in nests.items()}
    text = "\n".join(nest_functions(nest, name, (), cpu) for name, nest in nests.items())
    data = compile_object(module_text(text, cpu), cpu, speed=1)
    return nests, LoadedImage(link_object(data, cpu.triple, cpu.features, entries))


def _array(tensor, sizes, rng):
    shape = tuple(dim_value(d, sizes) for d in tensor.shape)
    if tensor.dtype.is_float:
        return tensor.dtype.array(rng.standard_normal(shape) * 2)
    low = -5 if tensor.dtype.is_signed else 0
    return rng.integers(low, 2 if tensor.dtype is BOOL else 9, shape).astype(tensor.dtype.numpy)


def _same(a, b):
    if not dtype_of(a.dtype).is_float:
        return (a == b).all()
    bits = f"uint{a.dtype.itemsize * 8}"
    return ((a.view(bits) == b.view(bits)) | (np.isnan(a) & np.isnan(b))).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_scheduled_code_gives_the_bits_of_the_naive_nest(built, name):
    nests, image = built
    computation, rng = COMPUTATIONS[name], np.random.default_rng(8)
    signature = lower.kernel_signature(computation, nests[name], ())
    naive = lower.lower(computation)
    for n, m in SIZES:
        sizes = {N: n, M: m}
        arrays = [_array(t, sizes, rng) for t in computation.inputs]
        expected = interpret(naive, arrays, {"n": n, "m": m})
        results = [
            np.empty([dim_value(d, sizes) for d in o.dims], o.dtype.numpy)
            for o in signature.outputs
        ]
        extents = [dim_value(p, sizes) for p in signature.phases]
        memory_bytes = own_memory(signature, sizes)
        assert image.call(name, [*arrays, *results], [n, m], extents, *memory_bytes) == 0
        for result, wanted in zip(results, expected):
            assert _same(result, wanted.reshape(result.shape)), (n, m)

"""Bits of convolutions: those of the naive nest, whatever the sizes, windows and layouts."""

from __future__ import annotations

import platform
import zlib
from dataclasses import dataclass

import numpy as np
import pytest

from relayvm.base.dims import DimVar, dim_value, symbol
from relayvm.base.dtypes import dtype_of
from relayvm.base.link import link_object
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels import compute as te
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.interpret import interpret
from relayvm.kernels.lower import Computation, kernel_signature, lower
from relayvm.kernels.schedule import schedule
from relayvm.kernels.verify import verify_nest
from relayvm.ops import bilinear
from relayvm.ops.convolution import plan_of, result_sizes

from .images import LoadedImage, chains_of, own_memory

HOST = Target()
NARROW = Target(cpu="x86-64-v3")
BATCH, HEIGHT, WIDTH = (DimVar(name) for name in ("b", "h", "w"))


@dataclass(frozen=True)
class Case:
    """A convolution of known size, and which of its sizes the kernel does not know."""

    batch: int
    inputs: int
    outputs: int
    space: tuple[int, ...]
    taps: tuple[int, ...]
    strides: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    dtype: str = "float32"
    layout: str = ""
    kernel: str = ""
    unknown: str = ""
    epilogue: str = "relu"
    is_transposed: bool = False

    def __str__(self):
        name = f"{self.batch}x{self.inputs}-{self.outputs}of{self.groups}-"
        name += "x".join(map(str, self.space)) + "-" + "x".join(map(str, self.taps))
        name += f"-s{self.strides}p{self.padding}d{self.dilation}-{self.dtype}"
        name += "-transposed" * self.is_transposed
        return name + f"-{self.layout}{self.kernel}-{self.unknown}-{self.epilogue}"

    def attributes(self):
        """Return the attributes of the operator."""
        rank, letters = len(self.space), "DHW"[-len(self.space) :]
        return {
            "strides": (self.strides,) * rank,
            "padding": (self.padding,) * (2 * rank),
            "dilation": (self.dilation,) * rank,
            "groups": self.groups,
            "data_layout": self.layout or f"NC{letters}",
            "kernel_layout": self.kernel or f"OI{letters}",
            "out_layout": "",
        }

    def computation(self):
        """Return what the kernel computes."""
        rank = len(self.space)
        plan = plan_of(f"nn.conv{rank}d", rank, self.attributes())
        dims = dict(zip("bhw", (BATCH, HEIGHT, WIDTH)))
        x_shape = [self.batch, self.inputs, *self.space]
        for letter, axis in (("b", 0), ("h", -2), ("w", -1)):
            if letter in self.unknown:
                x_shape[axis] = symbol(dims[letter])
        w_shape = (self.outputs, self.inputs // self.groups, *self.taps)
        if self.is_transposed:
            w_shape = (self.inputs, self.outputs // self.groups, *self.taps)
        x = te.placeholder("x", plan.data.arranged(tuple(x_shape)), self.dtype)
        w = te.placeholder("w", plan.weight.arranged(w_shape), self.dtype)
        out_dtype = dtype_of("int32" if self.dtype.endswith("int8") else self.dtype)
        if self.is_transposed:
            reach = self.strides - 1 + self.taps[0] - 2 * self.padding
            sizes = [size * self.strides - self.strides + reach for size in x_shape[2:]]
            shape = (x_shape[0], self.outputs, *sizes)
            conv = bilinear.data_gradient_tensor(x, w, plan, shape, out_dtype)
        else:
            sizes = result_sizes("conv", plan, tuple(x_shape), self.taps)
            conv = bilinear.result_tensor(x, w, plan, sizes, out_dtype)
        inputs, out = self._epilogue(conv, plan, [x, w])
        variables = tuple(dims[letter] for letter in "bhw" if letter in self.unknown)
        return Computation("conv", tuple(inputs), (out,), variables)

    def _epilogue(self, conv, plan, inputs):
        if self.epilogue == "none":
            return inputs, conv
        channel = plan.data.canonical(tuple(range(conv.rank)))[1]
        bias = te.placeholder("bias", (self.outputs,), conv.dtype)
        zero = te.const(0, conv.dtype)
        if self.epilogue == "relu":

            def element(*i):
                return te.scalar("maximum", conv[i] + bias[i[channel]], zero)

            return [*inputs, bias], te.compute(conv.shape, element)
        if self.epilogue == "place":

            def element(*i):
                return conv[i] + te.cast(i[-1] + i[-2] * 3, conv.dtype)

            return inputs, te.compute(conv.shape, element)
        rest = te.placeholder("rest", conv.shape, conv.dtype)

        def element(*i):
            return te.scalar("maximum", conv[i] * bias[i[channel]] + rest[i], zero)

        return [*inputs, bias, rest], te.compute(conv.shape, element)

    def arrays(self, computation):
        """Return operands made from the case."""
        random = np.random.default_rng(zlib.crc32(str(self).encode()))
        values = self.values()
        arrays = []
        for tensor in computation.inputs:
            shape = [dim_value(d, values) for d in tensor.shape]
            numbers = random.standard_normal(shape) * 4
            if tensor.dtype.is_integer:
                numbers = random.integers(0, 100, shape)
            arrays.append(numbers.astype(tensor.dtype.numpy))
        return arrays

    def values(self):
        return dict(zip((BATCH, HEIGHT, WIDTH), (self.batch, *self.space[-2:])))


def native(case, computation, nest, target, slices=1):
    """Return what a nest computes in native code."""
    verify_nest(nest)
    cpu = target_cpu(target)
    text = module_text(nest_functions(nest, "kernel", ()), cpu)
    entries = {"kernel": tuple(f"kernel.{p}" for p in range(len(nest.phases)))}
    code = compile_object(text, cpu, speed=1)
    image = LoadedImage(link_object(code, cpu.triple, cpu.features, entries))
    signature, values = kernel_signature(computation, nest, (), (), False), case.values()
    (output,) = computation.outputs
    result = np.full([dim_value(d, values) for d in output.shape], 77, output.dtype.numpy)
    dims = [values[v] for v in computation.dim_vars]
    extents = [dim_value(p, values) for p in signature.phases]
    operands = [*case.arrays(computation), result]
    memory = own_memory(signature, values)
    chains = chains_of(signature, values)
    assert image.call("kernel", operands, dims, extents, *memory, slices, chains) == 0
    return result


CASES = [
    Case(1, 3, 8, (20, 37), (3, 3), padding=1),
    Case(2, 5, 7, (9, 9), (3, 3), strides=2, padding=1, epilogue="rest"),
    Case(1, 17, 66, (7, 7), (3, 3), padding=1, epilogue="rest"),
    Case(2, 16, 5, (6, 6), (1, 1)),
    Case(1, 40, 9, (7, 7), (1, 1), strides=2, epilogue="none"),
    Case(1, 3, 6, (33, 40), (7, 7), strides=2, padding=3),
    Case(1, 2, 3, (12, 80), (2, 5), dilation=2, padding=2),
    Case(2, 8, 12, (10, 10), (3, 3), padding=1, groups=4, epilogue="rest"),
    Case(1, 6, 6, (15, 60), (3, 3), padding=1, groups=6),
    Case(2, 6, 6, (15, 15), (3, 3), strides=2, padding=1, groups=6, epilogue="rest"),
    Case(1, 5, 5, (7, 7), (5, 5), padding=2, groups=5),
    Case(1, 4, 8, (20, 70), (3, 3), padding=1, groups=4, epilogue="none"),
    Case(1, 4, 4, (9, 40), (3, 3), dilation=2, padding=2, groups=4),
    Case(1, 3, 4, (8, 300), (3, 3), padding=1),
    Case(1, 4, 5, (8, 8), (3, 3), padding=1, epilogue="place"),
    Case(2, 3, 5, (40,), (3,), padding=1),
    Case(2, 3, 5, (40,), (4,), strides=3, epilogue="none"),
    Case(1, 2, 3, (4, 5, 6), (2, 3, 3), padding=1, epilogue="none"),
    Case(1, 3, 4, (5, 6), (3, 3), padding=3),
    Case(1, 4, 5, (9, 9), (3, 3), padding=1, dtype="float64"),
    Case(1, 4, 5, (9, 9), (3, 3), padding=1, dtype="float16"),
    Case(1, 4, 5, (9, 9), (3, 3), padding=1, dtype="int8"),
    Case(1, 4, 5, (9, 9), (3, 3), padding=1, dtype="uint8", epilogue="rest"),
    Case(1, 4, 4, (9, 9), (3, 3), padding=1, groups=4, dtype="int8"),
    Case(1, 4, 4, (9, 20), (3, 3), padding=1, groups=4, dtype="float16"),
    Case(1, 7, 6, (9, 8), (3, 3), padding=1, layout="NHWC", kernel="HWIO"),
    Case(1, 7, 18, (9, 8), (3, 3), padding=1, layout="NHWC"),
    Case(1, 7, 6, (9, 8), (3, 3), padding=1, kernel="HWIO"),
    Case(1, 6, 6, (9, 8), (3, 3), padding=1, groups=6, layout="NHWC", kernel="HWOI"),
    Case(1, 20, 20, (9, 8), (3, 3), padding=1, groups=20, layout="NHWC", kernel="HWOI"),
    Case(1, 5, 6, (9, 20), (3, 3), padding=1, epilogue="none", is_transposed=True),
    Case(2, 5, 6, (8, 9), (4, 4), strides=2, padding=1, is_transposed=True),
    Case(1, 6, 4, (8, 9), (3, 3), strides=2, groups=2, is_transposed=True),
    Case(1, 4, 4, (8, 20), (3, 3), padding=1, groups=4, is_transposed=True),
    Case(2, 5, 6, (8, 9), (4, 4), strides=2, padding=1, unknown="bhw", is_transposed=True),
    Case(1, 6, 6, (9, 20), (3, 3), padding=1, groups=6, kernel="HWOI"),
    Case(0, 3, 4, (5, 6), (3, 3)),
    Case(1, 0, 4, (5, 6), (3, 3), padding=1),
    Case(1, 3, 0, (5, 6), (3, 3), padding=1),
    Case(1, 3, 4, (0, 6), (3, 3), padding=1),
    Case(2, 5, 6, (9, 35), (3, 3), padding=1, unknown="b"),
    Case(2, 5, 6, (9, 35), (3, 3), padding=1, unknown="bhw", epilogue="rest"),
    Case(1, 5, 6, (9, 100), (3, 3), strides=2, padding=1, unknown="hw"),
    Case(1, 5, 6, (11, 7), (3, 3), padding=1, unknown="h"),
    Case(0, 4, 4, (9, 20), (3, 3), padding=1, groups=4, unknown="bhw"),
    Case(2, 4, 4, (9, 21), (3, 3), padding=1, groups=4, unknown="bhw"),
    Case(2, 4, 4, (3, 1), (3, 3), strides=2, padding=1, groups=4, unknown="w"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_convolution_has_the_bits_of_the_naive_nest(case):
    computation = case.computation()
    expected = native(case, computation, lower(computation), HOST)
    for slices, target in ((1, HOST), (3, NARROW)):
        if target is NARROW and platform.machine() != "x86_64":
            continue
        got = native(case, computation, schedule(computation, target), target, slices)
        assert got.tobytes() == expected.tobytes(), target


def test_channels_may_be_unknown():
    channels = DimVar("o")
    x = te.placeholder("x", (1, 3, 6, 20), "float32")
    w = te.placeholder("w", (symbol(channels), 3, 3, 3), "float32")

    def element(b, o, i, j):
        return te.reduce("sum", (3, 3, 3), lambda c, p, q: x[b, c, i + p, j + q] * w[o, c, p, q])

    out = te.compute((1, symbol(channels), 4, 18), element)
    computation = Computation("conv", (x, w), (out,), (channels,))
    nest = schedule(computation)
    assert nest.private
    random = np.random.default_rng(5)
    for count in (0, 1, 6, 70):
        signature = kernel_signature(computation, nest, (), (), False)
        assert [dim_value(p, {channels: count}) for p in signature.phases] == [-(-count // 64)]
        shapes = ((1, 3, 6, 20), (count, 3, 3, 3))
        arrays = [random.standard_normal(s).astype(np.float32) for s in shapes]
        (got,) = interpret(nest, arrays, {"o": count})
        (expected,) = interpret(lower(computation), arrays, {"o": count})
        assert got.tobytes() == expected.tobytes()


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES[1:12:3], ids=str)
def test_a_block_reads_what_it_has_copied_itself(case):
    computation = case.computation()
    nest, dims = schedule(computation), {v.name: size for v, size in case.values().items()}
    (got,) = interpret(nest, case.arrays(computation), {d: dims[d] for d in nest.dims})
    expected = native(case, computation, lower(computation), HOST)
    assert got.tobytes() == expected.tobytes()

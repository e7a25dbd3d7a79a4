"""AArch64 images, cross-built here and run under qemu: the same bits as on the host."""

import subprocess

import numpy as np
import pytest

from relayvm.base.dtypes import FLOAT16, FLOAT32, FLOAT64, INT32, UINT8
from relayvm.base.link import link_object, merge_images
from relayvm.base.native.cpu import target_cpu
from relayvm.base.target import Target
from relayvm.kernels.codegen.function import nest_functions
from relayvm.kernels.codegen.llvm import compile_object, module_text
from relayvm.kernels.scalar_ops import SCALAR_OPS
from tests.cross import AARCH64_COMPILER, AARCH64_EMULATOR, needs_aarch64
from tests.kernels.images import same_bits
from tests.kernels.test_generated_nests import check_nest, link_nests, nests_for
from tests.kernels.test_generated_scalars import _op_nest, _values
from tests.kernels.test_link import FILL, TABLE

ARM = Target.parse("cpu -mtriple=aarch64-unknown-linux-gnu")
OPS = ["exp", "log", "tanh", "sigmoid", "erf", "sin", "power", "mod", "floor_divide", "divide"]
OPS += ["maximum", "round", "left_shift", "fma", "less"]


pytestmark = [pytest.mark.cross, pytest.mark.slow, needs_aarch64]


class Runner:
    """A program for AArch64 that runs phases of images on files."""

    def __init__(self, folder):
        self.folder = folder
        self.image = None
        self.values = [0, 0]
        self.program = folder / "run_image"
        source = __file__.replace("test_aarch64.py", "run_image.c")
        command = [*AARCH64_COMPILER, "-O1", "-static", source, "-o", str(self.program)]
        subprocess.run(command, check=True)

    def call(self, kernel, arrays, dims=(), extents=(1,), scratch_bytes=0, private_bytes=0):
        """Run all phases of a kernel; arrays are updated in place. Returns the status."""
        image = self.image
        assert max(scratch_bytes, private_bytes) <= 1 << 20
        code, memory, out = (self.folder / n for n in ("code", "memory", "out"))
        code.write_bytes(image.code)
        offsets = np.cumsum([0, *(-(-a.nbytes // 64) * 64 for a in arrays)])
        data = bytearray(int(offsets[-1]))
        for offset, array in zip(offsets, arrays):
            data[offset : offset + array.nbytes] = array.tobytes()
        memory.write_bytes(data)
        slots = [str(w) for name, slot in image.imports for w in (slot, name)]
        phases = [word for pair in zip(image.entries[kernel], extents) for word in pair]
        where = [*phases, "@", *dims, "@", *offsets[:-1]]
        command = [AARCH64_EMULATOR, self.program, code, memory, out, *slots, "--", *where]
        result = subprocess.run(list(map(str, command)), check=True, capture_output=True)
        written = out.read_bytes()
        for offset, array in zip(offsets, arrays):
            if not array.flags.writeable:
                continue
            array[...] = np.frombuffer(written, array.dtype, array.size, offset).reshape(
                array.shape
            )
        status, *self.values = map(int, result.stdout.split())
        return status


@pytest.fixture(scope="module")
def runner(tmp_path_factory):
    return Runner(tmp_path_factory.mktemp("arm"))


def _link(functions, entries):
    cpu = target_cpu(ARM)
    data = compile_object(module_text(functions, cpu), cpu, speed=1)
    return link_object(data, cpu.triple, cpu.features, entries)


def test_scalar_functions_have_the_same_bits_on_aarch64(runner):
    cases = [
        (SCALAR_OPS[name], dtype)
        for name in OPS
        for dtype in (FLOAT16, FLOAT32, FLOAT64, INT32, UINT8)
        if dtype in SCALAR_OPS[name].dtypes
    ]
    nests = [_op_nest(op, dtype) for op, dtype in cases]
    image = _link(
        "\n".join(nest_functions(n, n.name, ()) for n in nests),
        {n.name: (f"{n.name}.0",) for n in nests},
    )
    runner.image = image
    for (op, dtype), nest in zip(cases, nests):
        operands = [_values(dtype, seed) for seed in range(op.arity)]
        expected = op(*operands)
        result = np.empty_like(expected)
        assert runner.call(nest.name, [*operands, result]) == 0
        assert same_bits(result, expected).all(), nest.name


def test_imports_constants_and_jump_tables_work_on_aarch64(runner):
    fill = _link(FILL.replace("%VALUE", "9"), {"fill": ("k.0",)})
    image = merge_images([("fill", fill), ("table", _link(TABLE, {"table": ("k.0",)}))])
    runner.image = image
    out = np.zeros(8, np.uint8)
    assert runner.call("fill", [out], [5]) == 0
    assert out.tolist() == [9] * 5 + [0] * 3
    for n, expected in [(0, 44), (1, 70), (2, 11), (3, 80), (4, 90), (9, -1)]:
        word = np.zeros(1, np.int64)
        assert runner.call("table", [word], [n]) == 0
        assert word[0] == expected


def test_nests_have_the_same_bits_on_aarch64(runner):
    runner.image = link_nests(ARM)
    for name in [n for n in nests_for(ARM) if n.endswith("_scheduled")]:
        check_nest(runner, ARM, name, sizes=[(3, 33)])
        check_nest(runner, ARM, name, sizes=[(5, 19)], share=0.05)

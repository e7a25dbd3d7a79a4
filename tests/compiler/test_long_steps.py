"""Steps of reductions that are much code are not repeated for tiles of many sizes."""

from __future__ import annotations

import re

import numpy as np

import relayvm
from relayvm.base.dims import ANY
from relayvm.base.dtypes import FLOAT32
from relayvm.ir.build import var
from relayvm.ir.expr import Attrs, Call, Function
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

LINEAR = {"method": "bilinear", "align_corners": True, "scale_h": 3.0, "scale_w": 1.0}
CUBIC = {"method": "bicubic", "padding_mode": "reflection", "align_corners": False}


def compiled(name: str, count: int, attrs: dict[str, object]) -> relayvm.Executable:
    params = tuple(var(f"x{k}", TensorType((ANY,) * 4, FLOAT32)) for k in range(count))
    call = Call(OPS[name], params, Attrs(attrs))
    return relayvm.compile(Module({"main": Function(params, call)}))


def text_of(executable: relayvm.Executable) -> str:
    return "\n".join(kernel.nest for kernel in executable.program().kernels)


def test_long_steps_have_tiles_of_few_sizes() -> None:
    nest = text_of(compiled("nn.upsampling_grad", 2, LINEAR))
    assert len(re.findall(r"^ *tile acc", nest, re.MULTILINE)) <= 4


def test_long_steps_of_single_partials_are_loops() -> None:
    nest = text_of(compiled("image.grid_sample_grad", 3, CUBIC))
    unrolled = re.findall(r"^( *)unroll \w+ = 0 to 16 \{\n((?:\1 .*\n)*)", nest, re.MULTILINE)
    assert unrolled
    assert max(body.count("\n") for _, body in unrolled) < 30


def test_long_steps_compute_what_numpy_does() -> None:
    rng = np.random.default_rng(0)
    grad = rng.standard_normal((1, 2, 15, 40), dtype=np.float32)
    data = rng.standard_normal((1, 2, 5, 40), dtype=np.float32)
    found = relayvm.VirtualMachine(compiled("nn.upsampling_grad", 2, LINEAR)).run(grad, data)
    expected = OPS["nn.upsampling_grad"].evaluate((grad, data), LINEAR)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)

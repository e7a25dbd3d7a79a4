"""Cells, layers and attention as people write them: each is one kernel, with the values that the
program means.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.dims import ANY, dim_value, dim_variables
from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.passes import run_passes
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.types import TensorType
from relayvm.ops import OPS

FILES = sorted((Path(__file__).parent / "one_kernel").glob("*.rly"))
TOLERANCE = 2e-5
ROWS = 5  # what `n` is in a run


def case_id(path: Path) -> str:
    return path.stem


def module_of(path: Path) -> Module:
    source = path.read_text(encoding="utf-8").split("// ----\n")[0]
    return parse_program(Source(path.name, source), OPS)


def arguments(module: Module) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    result = []
    for param in module["main"].params:
        kind = param.type_annotation
        assert isinstance(kind, TensorType)
        sizes = [dict.fromkeys(dim_variables(d), ROWS) for d in kind.shape]
        shape = [ROWS if d is ANY else dim_value(d, known) for d, known in zip(kind.shape, sizes)]
        values = rng.standard_normal(shape)
        result.append(values > 0 if kind.dtype.is_bool else values.astype(np.float32))
    return result


def flat(value: object) -> list[np.ndarray]:
    if isinstance(value, (tuple, list)):
        return [array for part in value for array in flat(part)]
    return [np.asarray(value)]


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_the_program_is_one_primitive_function(path: Path) -> None:
    text = path.read_text(encoding="utf-8").split("// ----\n")[1]
    assert len(re.findall("Primitive=1", text)) == 1


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_its_executable_has_one_kernel_and_computes_what_the_program_means(path: Path) -> None:
    module = module_of(path)
    args = arguments(module)
    exe = relayvm.compile(module)
    assert len(exe.program().kernels) == 1
    typed = run_passes(module, ["infer_types"])
    wanted = flat(Evaluator(typed).call("main", args))
    found = flat(relayvm.VirtualMachine(exe).run(*args))
    assert len(found) == len(wanted) > 0
    for a, b in zip(found, wanted):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.mark.parametrize("path", FILES, ids=case_id)
def test_fusion_and_schedules_keep_the_bits_of_the_plain_program(path: Path) -> None:
    module = module_of(path)
    args = arguments(module)
    plain, fast = (
        flat(relayvm.VirtualMachine(relayvm.compile(module, opt_level=level)).run(*args))
        for level in (0, 3)
    )
    for a, b in zip(plain, fast):
        np.testing.assert_array_equal(a, b)

"""What passes over operator calls make of the programs in their golden files means the same."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import finfo

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.base.dtypes import BY_NAME
from relayvm.base.source import Source
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue, Reference
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.operator_passes import OPERATOR_PASSES
from relayvm.compiler.passes import run_passes
from relayvm.compiler.steps import split_steps
from relayvm.compiler.transforms.fake_quantization_to_integer import fake_quantization_to_integer
from relayvm.compiler.transforms.legalize import legalize
from relayvm.compiler.transforms.plan_devices import plan_devices
from relayvm.compiler.transforms.to_mixed_precision import Category, to_mixed_precision
from relayvm.ir.expr import Call, Constant
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ir.types import RefType, TensorType, TupleType, Type
from relayvm.ops import OPS

GOLDEN = Path(__file__).parents[1] / "golden"
FILES = [p for row in OPERATOR_PASSES for p in sorted((GOLDEN / row.name).glob("*.rly"))]
SIZES_OF_UNKNOWN = (2, 3)
# How far floats may move, beside the last bits: half precision, approximations, quantization.
TOLERANCE = {"fast_math": 2e-2, "to_mixed_precision": 2e-2, "fake_quantization_to_integer": 1.5}


def argument(kind: Type, rng: random.Random, unknown: int) -> object:
    if isinstance(kind, TupleType):
        return tuple(argument(f, rng, unknown) for f in kind.fields)
    if isinstance(kind, RefType):
        return Reference(argument(kind.value, rng, unknown))
    assert isinstance(kind, TensorType)
    shape = tuple(d if isinstance(d, int) else unknown for d in kind.shape)
    size = int(np.prod(shape, dtype=int))
    if kind.dtype.is_float:
        values = [
            rng.choice([0.0, -1.0, rng.uniform(-2, 2), rng.uniform(0, 2)]) for _ in range(size)
        ]
    elif kind.dtype.is_bool:
        values = [rng.random() < 0.5 for _ in range(size)]
    else:
        low, high = max(kind.dtype.min, -100), min(kind.dtype.max, 100)
        values = [rng.randint(int(low), int(high)) for _ in range(size)]
    return np.array(values).astype(kind.dtype.numpy).reshape(shape)


def compare(a: object, b: object, tolerance: float, may_narrow: bool = False) -> None:
    if isinstance(a, tuple):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            compare(x, y, tolerance, may_narrow)
        return
    if isinstance(a, Reference):
        compare(a.value, b.value, tolerance)
        return
    if isinstance(a, DataValue):
        assert a.tag == b.tag
        compare(tuple(a.fields), tuple(b.fields), tolerance)
        return
    assert a.shape == b.shape
    assert a.dtype == b.dtype or may_narrow
    if tolerance == 0:
        np.testing.assert_array_equal(a, b)
        return
    wide = [v.astype(np.float64) for v in (a, b)]
    eps = finfo(a.dtype).eps if a.dtype.kind == "f" else 0
    np.testing.assert_allclose(*wide, rtol=max(tolerance, 16 * eps), atol=max(tolerance, 16 * eps))


def ids(path: Path) -> str:
    return f"{path.parent.name}/{path.stem}"


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_a_pass_keeps_the_results_of_its_golden_programs(path):
    text = path.read_text(encoding="utf-8").split("// ----\n")[0]
    steps = split_steps(text.split("\n")[0].removeprefix("// opt --passes="))
    module = infer_types(parse_program(Source(path.name, text), OPS))
    after = infer_types(run_passes(module, steps, verify=True))
    rounds = next(row.rounds for row in OPERATOR_PASSES if row.name == path.parent.name)
    tolerance = TOLERANCE.get(path.parent.name, 1e-6 if rounds else 0)
    kinds = [p.checked_type for p in module["main"].params]
    compared = 0
    for unknown in SIZES_OF_UNKNOWN:
        # Each run has references of its own.
        before, now = (
            [argument(kind, rng, unknown) for kind in kinds]
            for rng in (random.Random(f"{path.name} {unknown}") for _ in range(2))
        )
        try:
            expected = Evaluator(module).call("main", before)
        except Trap:
            continue
        may_narrow = "keep_orig_output_dtype=0" in text
        compare(expected, Evaluator(after).call("main", now), tolerance, may_narrow)
        compare(tuple(before), tuple(now), 0)
        compared += 1
    assert compared


@pytest.mark.parametrize("row", OPERATOR_PASSES, ids=lambda row: row.name)
def test_a_program_without_work_for_a_pass_stays_the_same_object(row):
    text = """def @main(%x: Tensor[(2), int32], %c: bool) {
      let %y = negative(%x);
      if (%c) { %y } else { %x }
    }"""
    module = infer_types(parse_program(text, OPS))
    assert row.run(module, **dict(row.options)) is module


@pytest.mark.parametrize("row", OPERATOR_PASSES, ids=lambda row: row.name)
def test_a_pass_takes_a_long_chain_without_recursion(row):
    length = 3 * sys.getrecursionlimit()
    lines = "".join(f"  let %v{i + 1} = tanh(%v{i});\n" for i in range(length))
    text = f"def @main(%v0: Tensor[(2), float32]) {{\n{lines}  %v{length}\n}}"
    module = infer_types(parse_program(text, OPS))
    after = row.run(module, **dict(row.options))
    assert "main" in after.functions


def test_an_operator_without_category_is_refused_or_warned_of():
    text = "def @main(%x: Tensor[(2, 2), float32]) { sin(nn.dense(%x, %x)) }"
    module = infer_types(parse_program(text, OPS))
    with pytest.raises(RelayError, match="without a category of precision: `sin`"):
        to_mixed_precision(module, missing_op_mode=0)
    with pytest.warns(UserWarning, match="`sin`"):
        to_mixed_precision(module, missing_op_mode=1)


def test_precision_is_lowered_to_narrow_floats_alone():
    module = infer_types(parse_program("def @main(%x: float32) { exp(%x) }", OPS))
    for name in ("int8", "float64", "half"):
        with pytest.raises(RelayError, match="is no narrow float dtype"):
            to_mixed_precision(module, name)


def test_the_user_chooses_the_category_of_a_call():
    text = "def @main(%x: Tensor[(2, 2), float32]) { nn.dense(%x, %x) }"
    module = infer_types(parse_program(text, OPS))
    half = BY_NAME["float16"]
    assert to_mixed_precision(module, choose=lambda _: (Category.NEVER, half, half)) is module
    wide = to_mixed_precision(module, choose=lambda _: (Category.ALWAYS, BY_NAME["float32"], half))
    assert 'out_dtype="float32"' in print_module(wide)


def test_narrow_tuples_of_any_depth_are_widened_where_they_leave():
    depth = 2 * sys.getrecursionlimit()
    opening, closing = "(" * depth, ",)" * depth
    text = f"def @main(%x: Tensor[(2, 2), float32]) {{ {opening}nn.dense(%x, %x){closing} }}"
    module = infer_types(parse_program(text, OPS))
    after = to_mixed_precision(module)
    assert after["main"].body.checked_type == module["main"].body.checked_type


def test_an_operator_without_integers_is_refused_where_asked():
    text = """def @main(%x: Tensor[(2), int8]) {
      qnn.quantize(sin(qnn.dequantize(%x, 0.5f, 0)), 1f, 0)
    }"""
    module = infer_types(parse_program(text, OPS))
    assert fake_quantization_to_integer(module) is module
    with pytest.raises(RelayError, match="`sin` has no form on integers"):
        fake_quantization_to_integer(module, hard_fail=True)
    with pytest.raises(RelayError, match="`sin` is no optional operator"):
        fake_quantization_to_integer(module, optional_qnn_ops=("sin",))


def test_integers_made_for_one_scale_are_not_used_for_another():
    text = """def @main(%x: Tensor[(2, 2), int8], %y: Tensor[(2, 2), int8]) {
      let %s = qnn.dequantize(%x, 0.5f, 3) + qnn.dequantize(%y, 0.25f, 0);
      let %d = nn.dense(%s, qnn.dequantize(%y, 0.25f, 0));
      (qnn.quantize(%d, 16f, 0), qnn.quantize(%d, 64f, 7))
    }"""
    after = print_module(fake_quantization_to_integer(infer_types(parse_program(text, OPS))))
    assert "qnn.add(%x, %y, 0.5f, 3, 0.25f, 0, 16f, 0)" in after
    assert "qnn.add(%x, %y, 0.5f, 3, 0.25f, 0, 64f, 7)" in after


def test_two_devices_are_refused():
    text = """def @main(%x: Tensor[(2), float32]) {
      add(on_device(%x, device="cpu"), device_copy(%x, src_device="cpu", dst_device="cuda:1"))
    }"""
    with pytest.raises(RelayError) as raised:
        plan_devices(infer_types(parse_program(Source("two.relay", text), OPS)))
    assert raised.value.diagnostics[0].render() == (
        "error[several-devices]: parts of the program are on `cpu(0)`, others on `cuda(1)`\n"
        "  --> two.relay:2:40\n"
        "   |\n"
        f" 2 | {text.splitlines()[1]}\n"
        f"   | {' ' * 39}{'^' * 54}\n"
        "help: `relayvm explain several-devices`"
    )


def test_calls_take_the_legal_form_that_the_user_gives():
    text = "def @main(%x: Tensor[(2), float32]) { exp(exp(%x) + 1f) }"
    module = infer_types(parse_program(text, OPS))
    seen = []

    def as_power(attrs, operands, types):
        seen.append([str(t.dtype) for t in types])
        return Call(OPS["power"], (Constant(np.array(2, np.float32)), operands[0]))

    after = infer_types(legalize(module, {"exp": as_power}))
    assert "power(2f, add(power(2f, %x), 1f))" in print_module(after)
    assert seen == [["float32", "float32"]] * 2
    assert legalize(module, {"exp": lambda *_: None}) is module
    with pytest.raises(RelayError, match="the legal form of `exp` is 3, no expression"):
        legalize(module, {"exp": lambda *_: 3})

"""Every operator that values of operands can stop says so, and stays in front of writes."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from operator_case import Case
from operator_cases import CASES

import relayvm
from relayvm.base.abi import TRAP_CODES, TRAP_REASONS
from relayvm.base.diagnostics import Trap
from relayvm.base.dtypes import BY_NAME, dtype_of
from relayvm.base.shapes import ShapeError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_expr
from relayvm.ir.expr import Attrs, Call, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module
from relayvm.ir.types import TensorType, TupleType, Type
from relayvm.ops import OPS

VALUES = (-100, -1, 0, 100, "many")
FREE_DTYPES = ("float32", "int32")
TRAPS = sorted(n for n, row in OPS.items() if row.value_traps is True)
# Random numbers take any key, at some length.
ASKED = [n for n in CASES if not OPS[n].is_data_dependent and not n.startswith("random.")]


def operands(case: Case, free: str, value: int | str) -> Iterator[Any]:
    """Yield operands whose elements are all the same, or grow."""

    def array(shape: Any, dtype: Any) -> np.ndarray:
        count = int(np.prod(shape))
        numbers = np.arange(count) * 9 if value == "many" else np.full(count, value)
        return numbers.reshape(shape).astype(BY_NAME[dtype].numpy)

    for index, shape in enumerate(case.shapes):
        dtype = case.dtypes.get(index, free)
        if isinstance(shape, list):
            dtypes = dtype if isinstance(dtype, tuple) else (dtype,) * len(shape)
            yield tuple(map(array, shape, dtypes))
        else:
            yield array(shape, dtype)


def type_of(value: Any) -> Type:
    if isinstance(value, tuple):
        return TupleType(tuple(map(type_of, value)))
    return TensorType(value.shape, dtype_of(value.dtype))


def stops(name: str, case: Case) -> bool:
    """Return True if some values of types that fit give no result; checks what the row says."""
    row = OPS[name]
    for free in FREE_DTYPES:
        for value in VALUES:
            args = list(operands(case, free, value))
            types = list(map(type_of, args))
            try:
                row.result_type(types, case.attrs)
            except ShapeError:
                continue
            try:
                row.evaluate(args, case.attrs)
            except IndexError:
                assert row.traps_on_values(types, case.attrs), (name, value)
                return True
            except ShapeError as failure:
                assert failure.code == "bad-value", (name, value)
                assert row.traps_on_values(types, case.attrs), (name, value)
                return True
    return False


@pytest.mark.parametrize("name", ASKED)
def test_values_that_stop_an_operator_are_told_by_its_row(name: str) -> None:
    stopped = [stops(name, case) for case in CASES[name]]
    assert any(stopped) or name not in TRAPS


def test_taking_elements_traps_where_the_mode_or_an_empty_axis_says_so() -> None:
    take = OPS["take"]
    indices = TensorType((2,), BY_NAME["int32"])
    for shape, attrs, expected in (
        ((3,), {}, False),
        ((3,), {"mode": "fast"}, True),
        ((0,), {}, True),
        ((0, 3), {"axis": 1}, False),
        ((0, 3), {"axis": 0, "mode": "wrap"}, True),
    ):
        types = [TensorType(shape, BY_NAME["float32"]), indices]
        assert take.traps_on_values(types, attrs) is expected


WRITES = """
def @main(%r: ref(int32), %x: Tensor[(3), float32], %i: Tensor[(2), int32]) {{
  let %a = {call};
  let %u = ref_write(%r, 99);
  exp(%a)
}}
"""
CALLS = {
    "gather": "gather(%x, %i)",
    "gather_nd": "gather_nd(%x, reshape(%i, newshape=[1, 2]))",
    "adv_index": "adv_index((%x, %i))",
    "scatter_elements": "scatter_elements(%x, %i, ones(shape=[2], dtype='float32'))",
    "sparse_to_dense": "sparse_to_dense(%i, take(%x, %i), 0f, output_shape=[3])",
}


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize("name", CALLS)
def test_what_stops_leaves_references_as_they_were(name: str, level: int) -> None:
    text = WRITES.format(call=CALLS[name].replace("'", '"'))
    text += "\ndef @make() { ref(5) }\ndef @read(%r: ref(int32)) { ref_read(%r) }\n"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    reference = vm.invoke("make")
    with pytest.raises(relayvm.Trap) as trap:
        vm.invoke("main", reference, np.ones(3, np.float32), np.array([0, 7], np.int32))
    assert trap.value.code == "index-out-of-range"
    assert vm.invoke("read", reference) == 5


def stopping_operands(name: str) -> Iterator[tuple[Case, list[Any]]]:
    """Yield calls of operands that have types that fit and values that do not."""
    row = OPS[name]
    for case in CASES[name]:
        for free, value in itertools.product(FREE_DTYPES, VALUES):
            args = list(operands(case, free, value))
            try:
                row.result_type(list(map(type_of, args)), case.attrs)
            except ShapeError:
                continue
            try:
                row.evaluate(args, case.attrs)
                if row.is_data_dependent:
                    row.value_type(args, case.attrs)
            except IndexError:
                yield case, args
            except ShapeError as failure:
                if failure.code == "bad-value":
                    yield case, args


DEPENDENT = sorted(n for n, row in OPS.items() if row.value_operands)


NUMBER = r"(-?(?:\d[\d.e+]*|inf|nan))"
TOLD = {
    name: re.compile(re.escape(row.text).replace("%d", NUMBER).replace("%g", NUMBER) + "$")
    for name, row in TRAP_REASONS.items()
}


def meanings(name: str, case: Case, args: list[Any]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield who can run a call, with how: the evaluator first."""
    params = tuple(Var(f"x{i}", type_of(arg)) for i, arg in enumerate(args))
    function = Function(params, Call(OPS[name], params, Attrs(case.attrs)))
    evaluator = Evaluator(Module())
    meaning = evaluator.evaluate(infer_expr(function))
    yield "evaluator", partial(evaluator.apply, meaning, tuple(args))
    text = print_module(Module({"main": function}, {}))
    executable = relayvm.compile(relayvm.parse(text))
    for engine, threads in itertools.product(("interpreter", "jit"), (1, 2)):
        machine = relayvm.VirtualMachine(executable, engine=engine, num_threads=threads)
        yield f"{engine}, {threads}", partial(machine.run, *args)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*TRAPS, *DEPENDENT])
def test_a_trap_on_values_tells_the_operator_the_value_and_its_bound(name: str) -> None:
    found = 0
    for case, args in itertools.islice(stopping_operands(name), 3):
        expected, *others = ((who, outcome(run)) for who, run in meanings(name, case, args))
        assert isinstance(expected[1], str)
        code, operator, told = expected[1].split(": ", 2)
        reasons = [reason for reason, text in TOLD.items() if text.match(told)]
        assert operator == f"`{name}`" and reasons, expected
        assert code == f"error[{TRAP_CODES[TRAP_REASONS[reasons[0]].code][0]}]"
        for who, message in others:
            assert message == expected[1], who
        found += 1
    assert found


WORDS = {
    'take(%x, %i, axis=1, mode="fast")': "`take`: index 7 is outside an axis of 3",
    "gather(%x, %j, axis=1)": "`gather`: index -4 is outside an axis of 3",
    "gather_nd(%x, %j)": "`gather_nd`: index 9 is outside an axis of 3",
    "adv_index((%x, %i, %i))": "`adv_index`: index 7 is outside an axis of 2",
    "scatter_elements(%x, %j, %x, axis=1)": "`scatter_elements`: index -4 is outside an axis of 3",
    'gather(%x, cast(%j, dtype="uint64"), axis=1)': (
        "`gather`: index 18446744073709551612 is outside an axis of 3"
    ),
    "dyn.reshape(%x, %i)": "`dyn.reshape`: 6 elements do not fit a shape whose sizes hold 7",
    "dyn.broadcast_to(%x, %s)": "`dyn.broadcast_to`: a size of 2 does not broadcast to 4",
    "dyn.one_hot(%i, 1f, 0f, %n)": "`dyn.one_hot`: -3 is no size (entry 0)",
    "dyn.strided_slice(%x, %i, %i, %z)": "`dyn.strided_slice`: the stride of axis 1 is 0",
    "dyn.topk(%x, %m)": "`dyn.topk`: 4 elements are asked of an axis of 3",
    "arange(0f, %y, 1f)": (
        "`arange`: a distance of inf in steps of 1 has no finite number of elements"
    ),
}


@pytest.mark.parametrize("call", WORDS)
def test_a_trap_on_values_says(call: str) -> None:
    kinds = (
        "%x: Tensor[(2, 3), float32], %i: Tensor[(2), int32], %j: Tensor[(2, 3), int32],"
        " %s: Tensor[(2), int64], %z: Tensor[(2), int64], %y: float32, %n: int32, %m: int32"
    )
    module = relayvm.parse(f"def @main({kinds}) {{ {call} }}")
    args = (
        np.ones((2, 3), np.float32),
        np.array([1, 7], np.int32),
        np.array([[0, -4, 1], [9, 0, 1]], np.int32),
        np.array([4, 3]),
        np.array([1, 0]),
        np.float32(np.inf),
        np.int32(-3),
        np.int32(4),
    )
    executable = relayvm.compile(module)
    for engine, threads in itertools.product(("interpreter", "jit"), (1, 2)):
        machine = relayvm.VirtualMachine(executable, engine=engine, num_threads=threads)
        message = outcome(partial(machine.run, *args))
        assert isinstance(message, str) and message.endswith(f": {WORDS[call]}"), engine


def test_of_many_indices_outside_the_first_is_told_by_any_number_of_threads() -> None:
    kinds = "%x: Tensor[(5), float32], %i: Tensor[(?), int32]"
    executable = relayvm.compile(relayvm.parse(f"def @main({kinds}) {{ exp(gather(%x, %i)) }}"))
    places = np.arange(2_000_000, dtype=np.int32)
    indices = np.where(places % 300_000 == 299_999, places, 3).astype(np.int32)
    for engine, threads in itertools.product(("interpreter", "jit"), (1, 2, 8)):
        machine = relayvm.VirtualMachine(executable, engine=engine, num_threads=threads)
        message = outcome(partial(machine.run, np.ones(5, np.float32), indices))
        assert "index 299999 is outside an axis of 5" in message


def has_places(case: Case) -> bool:
    kinds = [k for d in case.dtypes.values() for k in (d if isinstance(d, tuple) else (d,))]
    return any(BY_NAME[kind].is_integer for kind in kinds)


def outcome(run: Callable[[], Any]) -> Any:
    """Return the results as flat numbers, or what the trap says."""
    try:
        result = run()
    except Trap as trap:
        return str(trap).splitlines()[0]
    fields = result if isinstance(result, tuple) else (result,)
    return [(np.shape(a), np.asarray(a).dtype, np.asarray(a, np.float64)) for a in fields]


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in ASKED if any(map(has_places, CASES[n]))])
def test_values_out_of_range_mean_the_same_to_the_evaluator_and_on_all_engines(name: str) -> None:
    row, case = OPS[name], next(filter(has_places, CASES[name]))
    for value in (-100, 100, "many"):
        args = list(operands(case, "float32", value))
        types = list(map(type_of, args))
        try:
            row.result_type(types, case.attrs)
        except ShapeError:
            continue
        (_, oracle), *others = meanings(name, case, args)
        expected = outcome(oracle)
        for engine, run in others:
            actual = outcome(run)
            if isinstance(expected, str) or isinstance(actual, str):
                assert actual == expected, (engine, value)
                continue
            for (shape, dtype, given), (own_shape, own_dtype, own) in zip(expected, actual):
                assert (own_shape, own_dtype) == (shape, dtype), (engine, value)
                # How near numbers are is for other tests: garbage is far away.
                assert np.allclose(own, given, rtol=1e-2, atol=1e-2, equal_nan=True)


MISFITS = {
    "squeeze": ("squeeze(%x, axis=[1])", "6 elements do not fit the shape (2)"),
    "reshape": ("reshape(%x, newshape=[4, -1])", "6 elements do not fit the shape (4, 1)"),
    "split": ("split(%x, indices_or_sections=2, axis=1)", "2 sections"),
    "add": ("add(%x, %y)", "3 and 5"),
    "nn.dense": ("nn.dense(%x, %y)", "3 and 5"),
    "concatenate": ("concatenate((%x, %y), axis=0)", "3 and 5"),
    "nn.bias_add": ("nn.bias_add(%x, take(%y, 0, axis=0))", "3 and 5"),
    "dyn.tile": ("dyn.tile(%x, %s)", "-5 is no size (entry 0)"),
    "dyn.reshape": ("dyn.reshape(%x, %s)", "-5 is neither a size nor -1 (entry 0)"),
    "dyn.squeeze": ("dyn.squeeze(%x, %s)", "axis -5 is outside a rank of 2"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_trap_on_sizes_names_the_operator_and_what_does_not_fit(name: str) -> None:
    call, words = MISFITS[name]
    kinds = "%x: Tensor[(?, ?), float32], %y: Tensor[(?, ?), float32], %s: Tensor[(2), int64]"
    machine = relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse(f"def @main({kinds}) {{ {call} }}"))
    )
    x, y = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
    with pytest.raises(Trap) as raised:
        machine.run(x, y, np.array([-5, 7]))
    message = str(raised.value).splitlines()[0]
    assert f"`{name}`" in message and words in message


@pytest.mark.parametrize(
    ("call", "count"), [("dyn.reshape(%x, %s)", 0), ("dyn.squeeze(%x, %s)", 2)]
)
def test_values_that_leave_no_axes_are_looked_at_too(call: str, count: int) -> None:
    kinds = f"%x: Tensor[(?, ?), float32], %s: Tensor[({count}), int64]"
    machine = relayvm.VirtualMachine(
        relayvm.compile(relayvm.parse(f"def @main({kinds}) {{ {call} }}"))
    )
    places = np.arange(count)
    assert machine.run(np.full((1, 1), 7, np.float32), places) == 7
    with pytest.raises(Trap) as raised:
        machine.run(np.ones((2, 3), np.float32), places)
    assert raised.value.code == "bad-value"


def emptied(case: Case) -> Iterator[Case]:
    """Yield a case with one of its sizes 0, wherever that stands, or one axis of one operand."""

    def part(shape: Any, change: Callable[[int, int], int]) -> Any:
        if isinstance(shape, list):
            return [part(s, change) for s in shape]
        return tuple(change(axis, size) for axis, size in enumerate(shape))

    flat = [s for shape in case.shapes for s in (shape if isinstance(shape, list) else [shape])]
    for gone in sorted({size for shape in flat for size in shape}):

        def zero(_: int, size: int, gone: int = gone) -> int:
            return 0 if size == gone else size

        yield replace(case, shapes=tuple(part(shape, zero) for shape in case.shapes))
    for k, shape in enumerate(case.shapes):
        for at in range(0 if isinstance(shape, list) else len(shape)):
            own = part(shape, lambda axis, size, at=at: 0 if axis == at else size)
            yield replace(case, shapes=(*case.shapes[:k], own, *case.shapes[k + 1 :]))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n in ASKED if OPS[n].value_traps))
def test_what_gives_no_element_looks_at_no_value(name: str) -> None:
    for case in emptied(CASES[name][0]):
        args = list(operands(case, "float32", 100))
        try:
            result = OPS[name].result_type(list(map(type_of, args)), case.attrs)
        except ShapeError:
            continue
        fields = result.fields if isinstance(result, TupleType) else (result,)
        if not all(isinstance(t, TensorType) and 0 in t.shape for t in fields):
            continue
        for who, run in meanings(name, case, args):
            found = outcome(run)
            assert [(shape, dtype) for shape, dtype, _ in found] == [
                (t.shape, t.dtype.numpy) for t in fields if isinstance(t, TensorType)
            ], who


def test_sizes_that_are_found_to_be_0_leave_values_alone() -> None:
    text = """def @main(%g: Tensor[(?, ?, 1, 1), float32], %x: Tensor[(?, ?, 4, 4), float32],
  %r: Tensor[(?, 5), float32]) {
    vision.roi_pool_grad(%g, %x, %r, pooled_size=[1, 1], spatial_scale=1f)
}"""
    executable = relayvm.compile(relayvm.parse(text))
    rois = np.full((2, 5), 9, np.float32)
    for engine in ("interpreter", "jit"):
        machine = relayvm.VirtualMachine(executable, engine=engine)
        found = machine.run(np.ones((2, 0, 1, 1), "f4"), np.ones((3, 0, 4, 4), "f4"), rois)
        assert found.shape == (3, 0, 4, 4)
        with pytest.raises(Trap):
            machine.run(np.ones((2, 1, 1, 1), "f4"), np.ones((3, 1, 4, 4), "f4"), rois)


@pytest.mark.parametrize(
    ("positions", "sizes", "wrong"),
    [([5, 7], [2, 3], "index 7 is"), ([-1], [2, 3], "index -1 is"), ([0], [0, 3], "an axis of 0")],
)
def test_a_position_outside_of_a_tensor_traps(
    positions: list[int], sizes: list[int], wrong: str
) -> None:
    text = "def @main(%x: Tensor[(?), int64], %s: Tensor[(2), int64]) { unravel_index(%x, %s) }"
    with pytest.raises(Trap, match=wrong):
        relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(
            np.array(positions), np.array(sizes)
        )
    with pytest.raises(IndexError, match=wrong):
        OPS["unravel_index"].evaluate([np.array(positions), np.array(sizes)], {})


@pytest.mark.parametrize(
    ("new", "wrong"),
    [
        ([5, 7], "6 elements do not fit a shape whose sizes hold 35"),
        ([4, -1], "6 elements do not fit a shape whose sizes hold 4"),
        ([-1, -1], "2 sizes of the new shape are -1"),
        ([-6, -1], "-6 is neither a size nor -1"),
    ],
)
def test_a_sparse_tensor_keeps_its_number_of_elements(new: list[int], wrong: str) -> None:
    three = ", ".join(f"%{n}: Tensor[({s}), int64]" for n, s in zip("ipn", ("1, 2", "2", "2")))
    text = f"def @main({three}) {{ sparse_reshape(%i, %p, %n) }}"
    args = [np.array([[0, 1]]), np.array([2, 3]), np.array(new)]
    with pytest.raises(Trap, match=wrong):
        relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(*args)
    with pytest.raises(ShapeError, match=wrong):
        OPS["sparse_reshape"].evaluate(args, {})


def test_positions_in_large_tensors_of_small_integers_are_right() -> None:
    text = "def @main(%x: Tensor[(3), int8], %s: Tensor[(3), int8]) { unravel_index(%x, %s) }"
    positions, sizes = np.array([0, 99, 127], np.int8), np.array([2, 100, 100], np.int8)
    found = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text))).run(positions, sizes)
    np.testing.assert_array_equal(found, np.stack(np.unravel_index(positions, (2, 100, 100))))

"""Operators that users bring along work, and a mistake in one is an error that names it."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError, Trap
from relayvm.base.dtypes import INT32
from relayvm.base.shapes import ShapeError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.types import TensorType, TupleType
from relayvm.kernels import compute as te
from relayvm.ops import Fusion, Operator, operator
from relayvm.ops.custom import check_custom_operators
from relayvm.ops.schema import Float, read_attributes

TEXT = "def @main(%x: Tensor[(3), float32]) { twice(%x) }"


def twice(rule=lambda x: x, fusion: Fusion = Fusion.ELEMENTWISE) -> Operator:
    def checked(x: Float) -> TensorType:
        return rule(x)

    checked.__module__ = "users_own"
    row = operator("twice", fusion=fusion)(checked)
    return row


def failure_of(row: Operator, text: str = TEXT) -> RelayError:
    with pytest.raises(RelayError) as caught:
        relayvm.compile(relayvm.parse(text, operators=[row]))
    assert caught.value.code == "bad-operator" and not isinstance(caught.value, Trap)
    return caught.value


@pytest.mark.parametrize("fusion", list(Fusion))
def test_a_row_without_compute_is_named_at_its_call(fusion: Fusion) -> None:
    failure = failure_of(twice(fusion=fusion))
    assert failure.message == "operator `twice` has no `.compute`, which this needs"
    assert failure.span is not None and failure.span.begin == TEXT.index("twice")


def test_a_rule_that_raises_is_named_with_what_it_raised() -> None:
    def broken(x: TensorType) -> TensorType:
        return {}["size"]

    failure = failure_of(twice(broken))
    assert failure.message == "the rule of operator `twice` raised KeyError: 'size'"
    assert failure.span is not None


def test_a_rule_that_returns_no_type_is_named() -> None:
    failure = failure_of(twice(lambda x: None))
    assert failure.message == "the rule of operator `twice` must return a type, not None"


def test_a_rule_may_refuse_with_a_code_of_its_own() -> None:
    def refuse(x: TensorType) -> TensorType:
        raise ShapeError("three is too many")

    with pytest.raises(RelayError, match="three is too many") as caught:
        relayvm.compile(relayvm.parse(TEXT, operators=[twice(refuse)]))
    assert caught.value.code == "shape-mismatch"


def test_a_compute_that_raises_is_named_with_what_it_raised() -> None:
    row = twice()

    @row.compute
    def _(x: te.Tensor) -> te.Tensor:
        return x.nonsense

    failure = failure_of(row)
    expected = "`.compute` of operator `twice` raised AttributeError: 'Tensor' object has no"
    assert failure.message.startswith(expected)
    assert failure.span is not None


@pytest.mark.parametrize(
    ("rule", "given", "shown"),
    [
        (lambda x: TensorType((4,), x.dtype), lambda x: x, "Tensor[(3), float32]"),
        (lambda x: TensorType(x.shape, INT32), lambda x: x, "Tensor[(3), float32]"),
        (lambda x: TupleType((x, x)), lambda x: (x,), "(Tensor[(3), float32])"),
        (lambda x: x, lambda x: 7, "a `int`"),
        (lambda x: x, lambda x: te.compute((), lambda: x[0]), "float32"),
    ],
)
def test_a_compute_of_another_type_than_the_rule_is_named(rule, given, shown: str) -> None:
    row = twice(rule, Fusion.OPAQUE)

    @row.compute
    def _(x: te.Tensor) -> te.Tensor:
        return given(x)

    message = f"`.compute` of operator `twice` gives {shown}, its rule promises "
    assert failure_of(row).message.startswith(message)


def test_a_rule_of_a_foreign_dtype_is_named() -> None:
    failure = failure_of(twice(lambda x: TensorType(x.shape, np.dtype("int32"))))
    assert failure.message == "the rule of operator `twice` gives the dtype dtype('int32')"


def test_a_numpy_facet_that_raises_is_named() -> None:
    row = twice()

    @row.numpy
    def _(x: np.ndarray) -> np.ndarray:
        return x.nonsense

    module = infer_types(relayvm.parse(TEXT, operators=[row]))
    with pytest.raises(RelayError, match="`.numpy` of operator `twice` raised AttributeError"):
        Evaluator(module).call("main", [np.zeros(3, np.float32)])


def test_constants_are_folded_only_where_numpy_tells_their_value() -> None:
    row = twice()

    @row.compute
    def _(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *i: x[i] * 2.0)

    module = relayvm.parse("def @main() { twice(21f) }", operators=[row])
    assert relayvm.VirtualMachine(relayvm.compile(module)).run() == 42


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (["x"], "`operators` holds `'x'`, which is no operator"),
        ("x", "`operators` holds `'x'`, which is no operator"),
        ([len], "`operators` holds a `builtin_function_or_method`, which is no operator"),
        (7, "`operators` must be a list of operators, not a `int`"),
        (twice(), "`operators` must be a list of operators, not a `Operator`"),
        ([twice(), twice()], "`operators` holds two operators named `twice`"),
    ],
)
def test_what_is_no_list_of_operators_is_refused(operators, message: str) -> None:
    with pytest.raises(RelayError) as caught:
        check_custom_operators(operators)
    assert (caught.value.code, caught.value.message) == ("bad-operator", message)


def test_annotations_may_be_evaluated() -> None:
    text = """
from relayvm.base.dims import Dim
from relayvm.base.dtypes import DType
from relayvm.ops.schema import Dims, Float, Ints
def rule(x: Float, *, a: int, b: float | None, c: Ints, d: Dims | None, e: DType | None, f: Dim,
         g: int | Ints, h: str, i: "bool", j: Ints | None): pass
"""
    scope: dict = {}
    exec(compile(text, "user.py", "exec", dont_inherit=True), scope)
    kinds = [row.kind for row in read_attributes(scope["rule"])]
    assert kinds == [
        *("int", "float | None", "Ints", "Dims | None", "DType | None", "Dim"),
        *("int | Ints", "str", "bool", "Ints | None"),
    ]


def test_unknown_annotations_are_refused() -> None:
    def attribute(x: Float, *, a: "list") -> TensorType: ...  # noqa: UP037

    def operand(x: int) -> TensorType: ...

    for rule in (attribute, operand):
        with pytest.raises(TypeError, match="of a rule"):
            operator("wrong", fusion=Fusion.OPAQUE)(rule)

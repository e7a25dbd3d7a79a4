"""Gradients of whole programs against finite differences, on the machine and by the evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm.base.dtypes import FLOAT64
from relayvm.compiler.autodiff import first_order_gradient, gradient
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Call, Function, If, Let, Match, RefCreate, TupleGetItem, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType
from relayvm.ir.visit import post_order
from relayvm.ops import OPS

STEP = 1e-6
T3 = "Tensor[(3,), float64]"

# Each takes a vector of three and gives a scalar.
PROGRAMS: dict[str, str] = {
    "straight line": "def @main(%x: T3) { sum(%x * exp(%x) - tanh(%x)) }",
    "a value used twice": "def @main(%x: T3) { let %y = %x * %x; sum(%y * %y + %y) }",
    "a shared node": "def @main(%x: T3) { %0 = exp(%x); sum(%0 * %0) }",
    "a choice": "def @main(%x: T3) { if (sum(%x) > 0f64) { sum(%x * %x) } else { sum(%x) } }",
    "recursion": """
        def @power(%x: T3, %n: int32) -> T3 {
          if (%n == 0) { ones_like(%x) } else { @power(%x, %n - 1) * %x }
        }
        def @main(%x: T3) { sum(@power(%x, 4)) }""",
    "a local recursive function": """
        def @main(%x: T3) {
          let %loop = fn (%y: T3, %n: int32) -> T3 {
            if (%n == 0) { %y } else { %loop(tanh(%y * %x), %n - 1) }
          };
          sum(%loop(%x, 3))
        }""",
    "mutual recursion": """
        def @even(%x: T3, %n: int32) -> T3 { if (%n == 0) { %x } else { @odd(%x * %x, %n - 1) } }
        def @odd(%x: T3, %n: int32) -> T3 { if (%n == 0) { %x } else { @even(tanh(%x), %n - 1) } }
        def @main(%x: T3) { sum(@even(%x, 3)) }""",
    "closures that capture": """
        def @main(%x: T3) {
          let %f = fn (%a: T3) { %a * %x };
          let %twice = fn (%g: fn (T3) -> T3) { fn (%a: T3) { %g(%g(%a)) } };
          sum(%twice(%f)(%x))
        }""",
    "references": """
        def @main(%x: T3) {
          let %r = ref(%x);
          ref_write(%r, ref_read(%r) * %x);
          ref_write(%r, ref_read(%r) * ref_read(%r));
          sum(ref_read(%r))
        }""",
    "closures in references": """
        def @main(%x: T3) {
          let %r = ref(fn (%a: T3) { %a });
          ref_write(%r, fn (%a: T3) { %a * %x * %x });
          sum(ref_read(%r)(%x))
        }""",
    "a list and its folds": """
        def @main(%x: T3) {
          let %l = @map(fn (%a: T3) { %a * %x }, Cons(%x, Cons(exp(%x), Nil)));
          sum(@foldl(fn (%a: T3, %b: T3) { %a * %b }, %x, %l))
        }""",
    "a constructor as a value": """
        def @main(%x: T3) { sum(@hd(@foldr(Cons, Nil, Cons(%x * %x, Nil)))) }""",
    "a data type of tensors": """
        type Leafy { Leaf(T3), Node(Leafy, Leafy) }
        def @walk(%t: Leafy) -> T3 {
          match (%t) { Leaf(%a) => tanh(%a), Node(%l, %r) => @walk(%l) * @walk(%r) }
        }
        def @main(%x: T3) { sum(@walk(Node(Leaf(%x), Node(Leaf(%x * %x), Leaf(%x))))) }""",
    "a data type of functions": """
        type Step { Step(fn (T3) -> T3) }
        def @main(%x: T3) { match (Step(fn (%a: T3) { %a * %x })) { Step(%f) => sum(%f(%x)) } }""",
    "tuples in and out of functions": """
        def @both(%p: (T3, int32)) { (%p.0 * %p.0, exp(%p.0), %p.1) }
        def @main(%x: T3) { let %t = @both((%x, 3)); sum(%t.0 * %t.1) }""",
    "an operator with several results": """
        def @main(%x: T3) {
          let %t = split(concatenate((%x, %x * %x), axis=0), indices_or_sections=3, axis=0);
          sum(%t.0 * %t.1 * %t.2)
        }""",
    "arrays": """
        def @main(%x: T3) {
          let %a = array.push(array.push(array.new(2), %x), %x * %x);
          let %b = array.set(%a, 0, array.get(%a, 1) * %x);
          sum(array.get(%b, 0) + array.get(%b, 1))
        }""",
    "integers on the way": """
        def @main(%x: T3) { sum(take(%x * %x, argmax(%x)) * cast(argmax(%x), dtype="float64")) }""",
    "sizes that differ where they join": """
        def @main(%x: T3) {
          let %y = if (sum(%x) > 100f64) { %x } else { concatenate((%x, exp(%x)), axis=0) };
          sum(%y * %y)
        }""",
    "constants handed to functions": """
        def @f(%a: T3, %b: Tensor[(), float64]) { %a * %b }
        def @main(%x: T3) { sum(@f(%x, 2f64) * @f(%x, 3f64)) }""",
    "a polymorphic function": """
        def @pick[A](%c: bool, %a: A, %b: A) -> A { if (%c) { %a } else { %b } }
        def @main(%x: T3) { let %p = @pick(True, (%x, 1), (%x * %x, 2)); sum(%p.0 * %p.0) }""",
    "nothing that depends on it": 'def @main(%x: T3) { sum(ones(shape=(3,), dtype="float64")) }',
}

X = np.array([0.4, -0.7, 1.3])


def module_of(text: str) -> Module:
    return relayvm.parse(text.replace("T3", T3))


def with_main(module: Module, main: Function) -> Module:
    return module.with_functions({**module.functions, "main": main})


def differentiated(text: str) -> Module:
    module = module_of(text)
    function, module = gradient(module["main"], module)
    return with_main(module, function)


def run(module: Module, *args: Any) -> Any:
    return relayvm.VirtualMachine(relayvm.compile(module)).run(*args)


def finite_differences(text: str) -> np.ndarray:
    machine = relayvm.VirtualMachine(relayvm.compile(module_of(text)))
    result = np.zeros(3)
    for i in range(3):
        moved = np.eye(3)[i] * STEP
        result[i] = (machine.run(X + moved) - machine.run(X - moved)) / (2 * STEP)
    return result


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_gradient_is_the_slope(name: str) -> None:
    value, (of_x,) = run(differentiated(PROGRAMS[name]), X)
    np.testing.assert_array_equal(value, run(module_of(PROGRAMS[name]), X))
    np.testing.assert_allclose(of_x, finite_differences(PROGRAMS[name]), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["recursion", "a data type of tensors", "references", "arrays"])
def test_the_evaluator_finds_the_same(name: str) -> None:
    module = infer_types(differentiated(PROGRAMS[name]))
    _, (expected,) = run(module, X)
    _, (of_x,) = Evaluator(module).call("main", [X])
    np.testing.assert_allclose(of_x, expected, rtol=1e-12)


def test_second_and_third_derivatives() -> None:
    module = module_of("def @main(%x: T3) { sum(%x * %x * %x * %x) }")
    function, module = gradient(module["main"], module)
    for expected in (12 * X**2, 24 * X):
        x = Var("x", TensorType((3,), FLOAT64))
        slope = TupleGetItem(TupleGetItem(Call(function, (x,)), 1), 0)
        function, module = gradient(Function((x,), OPS["sum"](slope)), module)
        _, (of_x,) = run(with_main(module, function), X)
        np.testing.assert_allclose(of_x, expected, rtol=1e-10)


def test_every_parameter_has_a_gradient_of_its_own_type() -> None:
    text = """
        type Pair { Pair(T3, int32) }
        def @main(%p: (T3, Tensor[(2,), int32]), %q: Pair, %l: List[T3]) {
          match (%q) { Pair(%a, _) => sum(%p.0 * %a * @hd(%l)) }
        }"""
    module = differentiated(text)
    executable = relayvm.compile(module)
    pair = executable.adt("Pair").Pair(X, 7)
    items = executable.adt("List[Tensor[(3,), float64]]")
    given = items.Cons(2 * X, items.Cons(X, items.Nil()))
    value, (of_p, of_q, of_l) = relayvm.VirtualMachine(executable).run(
        (X, np.array([1, 2], np.int32)), pair, given
    )
    assert value == pytest.approx(np.sum(2 * X**3))
    np.testing.assert_allclose(of_p[0], 2 * X * X)
    np.testing.assert_array_equal(of_p[1], np.zeros(2, np.int32))
    np.testing.assert_allclose(of_q.fields[0], 2 * X * X)
    assert of_q.fields[1] == 0
    np.testing.assert_allclose(of_l.fields[0], X * X)
    np.testing.assert_array_equal(of_l.fields[1].fields[0], np.zeros(3))


def test_arrays_as_parameters_and_results() -> None:
    text = """
        def @main(%a: Array[T3]) { array.push(%a, array.get(%a, 0) * array.get(%a, 1)) }"""
    value, (of_a,) = run(differentiated(text), [X, 2 * X])
    np.testing.assert_allclose(value[2], 2 * X * X)
    np.testing.assert_allclose(of_a[0], 1 + 2 * X)
    np.testing.assert_allclose(of_a[1], 1 + X)


def test_all_floats_of_the_result_count() -> None:
    value, (of_x,) = run(differentiated("def @main(%x: T3) { (%x, (%x * %x, 3)) }"), X)
    np.testing.assert_allclose(of_x, 1 + 2 * X)
    assert value[1][1] == 3


def test_symbolic_sizes() -> None:
    text = "def @main[n](%x: Tensor[(n, 2), float64]) { sum(%x * %x) }"
    x = np.arange(10.0).reshape(5, 2)
    _, (of_x,) = run(differentiated(text), x)
    np.testing.assert_allclose(of_x, 2 * x)


def test_a_long_loop_goes_back_without_a_stack() -> None:
    text = """
        def @loop(%i: int32, %acc: Tensor[(), float64], %x: Tensor[(), float64])
            -> Tensor[(), float64] {
          if (%i == 0) { %acc } else { @loop(%i - 1, %acc + %x, %x) }
        }
        def @main(%x: Tensor[(), float64]) { @loop(100000, 0f64, %x) }"""
    _, (of_x,) = run(differentiated(text), np.float64(1))
    assert of_x == 100_000


def test_an_operator_without_gradient_is_named_with_its_reason() -> None:
    with pytest.raises(relayvm.RelayError, match="`reinterpret` has no gradient: bits have no"):
        differentiated('def @main(%x: T3) { sum(reinterpret(%x, dtype="float64")) }')


def test_functions_as_parameters_are_refused() -> None:
    with pytest.raises(relayvm.RelayError, match="type `FuncType` cannot be differentiated"):
        differentiated("def @main(%f: fn (T3) -> T3, %x: T3) { sum(%f(%x)) }")


# --- first order -----------------------------------------------------------------------------

STRAIGHT = [
    "straight line",
    "a value used twice",
    "a shared node",
    "an operator with several results",
    "integers on the way",
    "nothing that depends on it",
]


@pytest.mark.parametrize("name", STRAIGHT)
def test_first_order_gives_the_same(name: str) -> None:
    module = module_of(PROGRAMS[name])
    function = first_order_gradient(module["main"], module)
    kinds = {type(node) for node in post_order(function.body)}
    assert not kinds & {Function, RefCreate, If, Match}
    _, (of_x,) = run(with_main(module, function), X)
    np.testing.assert_allclose(of_x, finite_differences(PROGRAMS[name]), rtol=1e-6, atol=1e-8)


def test_first_order_refuses_control_flow_and_names_the_way_out() -> None:
    module = module_of(PROGRAMS["a choice"])
    with pytest.raises(relayvm.RelayError, match="not for a `If`") as caught:
        first_order_gradient(module["main"], module)
    assert caught.value.code == "no-gradient"


def test_first_order_of_a_long_chain_is_linear() -> None:
    steps = " ".join(f"let %v{i + 1} = tanh(%v{i});" for i in range(2000))
    module = module_of(f"def @main(%v0: T3) {{ {steps} sum(%v2000) }}")
    node = first_order_gradient(module["main"], module).body
    lets = 0
    while isinstance(node, Let):
        node, lets = node.body, lets + 1
    assert lets < 3 * 2001

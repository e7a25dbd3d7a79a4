"""Texts: what parses, what prints, and back."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay.testing import run_infer_type

SEMVER = '#[version = "0.0.5"]\n'


def assert_parses_as(code: str, expr) -> None:
    parsed = relay.parse_expr(SEMVER + code)
    assert tvm.ir.structural_equal(parsed, expr, map_free_vars=True)


def assert_parse_module_as(code: str, mod) -> None:
    parsed = relay.parse(SEMVER + code)
    tvm.ir.assert_structural_equal(parsed, relay.transform.InferType()(mod))


def roundtrip_expr(expr) -> None:
    text = tvm.ir.assert_structural_equal and expr.astext()
    again = relay.parse_expr(text)
    tvm.ir.assert_structural_equal(again, expr, map_free_vars=True)
    assert again.astext() == text


def test_literals() -> None:
    assert_parses_as("5", relay.const(5))
    assert_parses_as("5.0f", relay.const(5.0))
    assert_parses_as("-1.5e3f", relay.const(-1500.0))
    assert_parses_as("True", relay.const(True))
    assert_parses_as("5i64", relay.const(5, "int64"))
    assert_parses_as("3f64", relay.const(3.0, "float64"))
    assert_parses_as("()", relay.Tuple([]))
    assert_parses_as("(1,)", relay.Tuple([relay.const(1)]))
    assert_parses_as("(1, 2, 3)", relay.Tuple([relay.const(i) for i in (1, 2, 3)]))


def test_comments() -> None:
    assert_parses_as("// here\n5", relay.const(5))
    assert_parses_as("/* a /* nested */ one */ 5", relay.const(5))


def test_operators_by_sign() -> None:
    for sign, op in (("+", relay.add), ("-", relay.subtract), ("*", relay.multiply)):
        assert_parses_as(f"1 {sign} 2", op(relay.const(1), relay.const(2)))
    assert_parses_as("1 * 1 + 2", relay.const(1) * relay.const(1) + relay.const(2))
    assert_parses_as("1 < 2", relay.less(relay.const(1), relay.const(2)))
    assert_parses_as("1 == 2", relay.equal(relay.const(1), relay.const(2)))


def test_lets_sequences_and_graph_bindings() -> None:
    x = relay.Var("x")
    assert_parses_as("let %x = 1; 2", relay.Let(x, relay.const(1), relay.const(2)))
    assert_parses_as("let %_ = 1; ()", relay.Let(relay.Var("_"), relay.const(1), relay.Tuple([])))
    shared = relay.const(1) + relay.const(2)
    parsed = relay.parse_expr(SEMVER + "%0 = 1 + 2; %0 * %0")
    assert parsed.args[0] is parsed.args[1]
    assert tvm.ir.structural_equal(parsed, shared * shared)


def test_functions_and_types() -> None:
    x = relay.var("x", "int32")
    assert_parses_as(
        "fn (%x: int32) -> int32 { %x }", relay.Function([x], x, relay.scalar_type("int32"))
    )
    y = relay.var("y", relay.TensorType((5, relay.Any()), "float16"))
    assert_parses_as("fn (%y: Tensor[(5, ?), float16]) { %y }", relay.Function([y], y))
    t = relay.var(
        "t", relay.TupleType([relay.scalar_type("bool"), relay.RefType(relay.scalar_type("int8"))])
    )
    assert_parses_as(
        "fn (%t: (bool, ref(int8))) { %t.0 }", relay.Function([t], relay.TupleGetItem(t, 0))
    )
    f = relay.var("f", relay.FuncType([relay.scalar_type("int32")], relay.TupleType([])))
    assert_parses_as("fn (%f: fn (int32) -> ()) { %f }", relay.Function([f], f))


def test_polymorphic_functions() -> None:
    a = relay.TypeVar("A")
    x = relay.Var("x", a)
    parsed = relay.parse_expr(SEMVER + "fn [A](%x: A) -> A { %x }")
    assert tvm.ir.structural_equal(parsed, relay.Function([x], x, a, [a]))


def test_branches() -> None:
    assert_parses_as(
        "if (True) { 0 } else { 1 }", relay.If(relay.const(True), relay.const(0), relay.const(1))
    )


def test_attributes_of_calls() -> None:
    x = relay.var("x", shape=(1, 3))
    assert_parses_as(
        "fn (%x: Tensor[(1, 3), float32]) { concatenate((%x, %x), axis=1) }",
        relay.Function([x], relay.concatenate([x, x], axis=1)),
    )
    parsed = relay.parse_expr(
        SEMVER + "fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) "
        "{ nn.conv2d(%x, %w, padding=[1, 1, 1, 1], kernel_size=[3, 3], channels=4) }"
    )
    assert parsed.body.attrs.channels == 4 and list(parsed.body.attrs.padding) == [1, 1, 1, 1]


def test_data_types_and_matches() -> None:
    code = """
    type List[A] {
      Cons(A, List[A]),
      Nil,
    }
    def @length[A](%l: List[A]) -> int32 {
      match (%l) {
        Cons(_, %tail) => 1 + @length(%tail),
        Nil => 0,
      }
    }
    def @main() { @length(Cons(1, Cons(2, Nil))) }
    """
    mod = relay.parse(SEMVER + code)
    for kind in ("debug", "vm"):
        assert relay.create_executor(kind, mod).evaluate()().numpy() == 2
    again = relay.parse(mod.astext())
    tvm.ir.assert_structural_equal(again, mod)


def test_a_module_of_several_functions() -> None:
    code = """
    def @id(%x: int32) -> int32 { %x }
    def @main(%y: int32) -> int32 { @id(%y) + 1 }
    """
    x, y = relay.var("x", "int32"), relay.var("y", "int32")
    mod = tvm.IRModule()
    ident = relay.GlobalVar("id")
    ti32 = relay.scalar_type("int32")
    mod[ident] = relay.Function([x], x, ti32)
    mod["main"] = relay.Function([y], ident(y) + relay.const(1), ti32)
    assert_parse_module_as(code, mod)


def test_import_and_extern() -> None:
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    mod = relay.parse(SEMVER + "def @main() { @hd(Cons(3, Nil)) }", init_module=mod)
    assert relay.create_executor("vm", mod).evaluate()().numpy() == 3
    assert mod.get_type("List")[1].name_hint == "Cons"
    mod = relay.parse(SEMVER + "extern type T\ndef @main(%t: T[]) -> T[] { %t }")
    assert "extern type T" in mod.astext()


@pytest.mark.parametrize(
    "code",
    ["1 +", "fn (%x) { %y }", "let %x = 1", "(1, 2", "@f(1", "nn.no_such_operator(1)", "5;;"],
)
def test_what_does_not_parse(code) -> None:
    with pytest.raises(tvm.error.DiagnosticError):
        relay.parse(SEMVER + f"def @main() {{ {code} }}")


def test_text_of_an_expression() -> None:
    x = relay.var("x", "float32")
    z = relay.add(x, x)
    text = relay.Function([x], z).astext()
    assert "add(%x, %x)" in text and text.startswith(("fn (%x: float32)", "#[version"))
    assert str(relay.TensorType((3, 4))) == "Tensor[(3, 4), float32]"
    assert str(relay.const(1)) in ("1", "meta[relay.Constant][0]")


def test_texts_of_models_come_back() -> None:
    for net, _params in (
        relay.testing.mlp.get_workload(1),
        relay.testing.resnet.get_workload(num_layers=18),
        relay.testing.lstm.get_workload(2, 4),
    ):
        again = relay.parse(net.astext())
        tvm.ir.assert_structural_equal(again, net)
        typed = relay.transform.InferType()(net)
        assert relay.parse(typed.astext()).astext() == typed.astext()


def test_texts_of_constants_come_back() -> None:
    arrays = [
        np.float32([np.nan, np.inf, -0.0, 1e-45]),
        np.float16([[0.1, 65504]]),
        np.array([2**63 - 1, -(2**63)]),
        np.array([True, False]),
        np.array(1 / 3),
        np.uint8(200),
    ]
    f = relay.Function([], relay.Tuple([relay.const(a, a.dtype.name) for a in arrays]))
    again = relay.parse_expr(f.astext())
    for given, read in zip(arrays, again.body.fields):
        assert read.data.numpy().tobytes() == np.asarray(given).tobytes()
        assert read.data.dtype == given.dtype


def test_text_without_its_metadata_names_constants() -> None:
    f = relay.Function([], relay.const(np.arange(3)))
    assert "meta[relay.Constant][0]" in f.astext(show_meta_data=False)
    assert f.astext(show_meta_data=False) in f.astext()


def test_texts_after_passes_come_back() -> None:
    x = relay.var("x", shape=(2, 3))
    f = relay.Function([x], relay.nn.softmax(relay.exp(x) + relay.const(1.0)))
    for pass_ in (
        relay.transform.ToANormalForm(),
        relay.transform.FuseOps(),
        relay.transform.ToBasicBlockNormalForm(),
        relay.transform.SimplifyInference(),
    ):
        mod = pass_(relay.transform.InferType()(tvm.IRModule.from_expr(f)))
        mod = relay.transform.InferType()(mod)
        again = relay.parse(mod.astext())
        tvm.ir.assert_structural_equal(again, mod)


def test_names_that_collide_are_told_apart() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("x", shape=(2,))
    f = run_infer_type(relay.Function([x, y], x - y))
    again = relay.parse_expr(f.astext())
    assert tvm.ir.structural_equal(run_infer_type(again), f)


def test_spans_of_parsed_nodes() -> None:
    mod = relay.parse(SEMVER + "def @main(%x: int32) {\n  %x + 1\n}", "here.rly")
    span = mod["main"].body.span
    assert span.source_name.name == "here.rly" and span.line == 3

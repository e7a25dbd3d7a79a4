"""Analyses, visitors and mutators of programs."""

from __future__ import annotations

import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay import ExprFunctor, ExprMutator, ExprVisitor
from relayvm.relay.analysis import Feature
from relayvm.relay.prelude import Prelude
from relayvm.relay.testing import run_infer_type


def test_variables_of_an_expression() -> None:
    x, y = relay.Var("x"), relay.Var("y")
    assert list(relay.analysis.free_vars(x)) == [x]
    let = relay.Let(x, relay.const(1), y)
    assert list(relay.analysis.free_vars(let)) == [y]
    assert list(relay.analysis.bound_vars(let)) == [x]
    assert set(relay.analysis.all_vars(let)) == {x, y}
    f = relay.Function([x], x + y)
    assert list(relay.analysis.free_vars(f)) == [y]


def test_type_variables_of_an_expression() -> None:
    tp = relay.TypeVar("")
    ty = relay.TupleType([tp, relay.TensorType([], "int32")])
    x = relay.Var("x", ty)
    y = relay.Var("y")
    let = relay.Let(x, y, x)
    fvl = relay.analysis.free_vars(let)
    assert list(fvl) == [y]
    assert list(relay.analysis.free_type_vars(let)) == [tp]
    f = relay.Function([x], x, None, [tp])
    assert list(relay.analysis.bound_type_vars(f)) == [tp]
    assert list(relay.analysis.all_type_vars(f)) == [tp]
    assert list(relay.analysis.free_type_vars(f)) == []


def test_well_formed_programs() -> None:
    x = relay.Var("x")
    assert relay.analysis.well_formed(x)
    v = relay.Var("v")
    let = relay.Let(v, relay.const(1), v)
    assert relay.analysis.well_formed(let)
    assert not relay.analysis.well_formed(relay.Let(v, let, let))
    f = relay.Function([v], v)
    assert relay.analysis.well_formed(f)
    assert not relay.analysis.well_formed(relay.Tuple([f, relay.Let(v, relay.const(1), v)]))


def test_kinds() -> None:
    tp = relay.TypeVar("tp", relay.TypeKind.Type)
    assert relay.analysis.check_kind(relay.TupleType([tp])) == relay.TypeKind.Type
    assert relay.analysis.check_kind(relay.RefType(tp)) == relay.TypeKind.Type
    assert relay.analysis.check_kind(relay.GlobalTypeVar("g")) == relay.TypeKind.AdtHandle
    bad = relay.FuncType([relay.GlobalTypeVar("g")], tp, [tp])
    with pytest.raises(tvm.error.DiagnosticError):
        relay.analysis.check_kind(bad)


def test_unmatched_cases() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    v = relay.Var("v")
    hd = relay.Clause(
        relay.PatternConstructor(cons, [relay.PatternWildcard(), relay.PatternWildcard()]), v
    )
    empty = relay.Clause(relay.PatternConstructor(nil, []), v)
    assert len(relay.analysis.unmatched_cases(relay.Match(v, [hd, empty]), mod)) == 0
    missing = relay.analysis.unmatched_cases(relay.Match(v, [hd]), mod)
    assert len(missing) == 1 and missing[0].constructor == nil
    anything = relay.Clause(relay.PatternWildcard(), v)
    assert not relay.analysis.unmatched_cases(relay.Match(v, [anything]), mod)


def test_features() -> None:
    assert relay.analysis.detect_feature(relay.const(1)) == {Feature.fConstant}
    assert relay.analysis.detect_feature(relay.Tuple([])) == {Feature.fTuple}
    assert relay.analysis.detect_feature(relay.op.get("add")) == {Feature.fOp}
    x = relay.Var("x")
    loop = relay.Let(x, relay.Function([], x()), x)
    assert Feature.fLetRec in relay.analysis.detect_feature(loop)
    mod = tvm.IRModule.from_expr(relay.Function([x], x))
    assert relay.analysis.detect_feature(mod) == {Feature.fFunction, Feature.fVar}


def test_call_graphs() -> None:
    mod = tvm.IRModule({})
    x = relay.var("x", shape=(2,))
    g1, g2 = relay.GlobalVar("g1"), relay.GlobalVar("g2")
    mod[g1] = relay.Function([x], x)
    mod[g2] = relay.Function([x], g1(g1(x)))
    mod["main"] = relay.Function([x], g2(x) + g1(x))
    cg = relay.analysis.CallGraph(mod)
    assert "g1" in str(cg) and "#refs" in str(cg)
    assert cg.ref_count(g1) == 2 and cg.ref_count("g2") == 1
    assert cg.global_call_count("g2") == 1
    assert not cg.is_recursive("g1")


def test_counts_of_operations() -> None:
    net, _ = relay.testing.mlp.get_workload(1)
    freqs = relay.analysis.list_op_freqs(net)
    assert freqs["nn.dense"] == 3 and freqs["nn.relu"] == 2
    assert relay.analysis.count_layers(net["main"].body, ["nn.dense"]) == 3
    x, w = relay.var("x", shape=(1, 3, 8, 8)), relay.var("w", shape=(4, 3, 3, 3))
    conv = run_infer_type(relay.Function([x, w], relay.nn.conv2d(x, w)))
    assert relay.analysis.get_total_mac_number(conv) == 4 * 3 * 9 * 36
    assert relay.analysis.all_dtypes(conv) == {"float32"}


def test_an_intermediate_expression() -> None:
    x = relay.var("x", shape=(2,))
    a = relay.exp(x)
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.tanh(a) * a))
    part = relay.analysis.extract_intermdeiate_expr(mod, 0)
    assert relay.testing.count_ops(part["main"]) == {"exp": 1}


def test_post_order() -> None:
    x = relay.var("x")
    seen = []
    relay.analysis.post_order_visit(relay.exp(x) + x, seen.append)
    assert seen[0] is not seen[-1] and seen.count(x) == 1
    assert isinstance(seen[-1], relay.Call) and seen[-1].op.name == "add"


def test_a_visitor_counts() -> None:
    class Counter(ExprVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def visit_call(self, call) -> None:
            self.calls += 1
            super().visit_call(call)

    x = relay.var("x")
    shared = relay.exp(x)
    c = Counter()
    c.visit(relay.Function([x], relay.If(x, shared + shared, relay.Tuple([shared])[0])))
    assert c.calls == 2


def test_a_mutator_keeps_what_is_shared() -> None:
    class Swap(ExprMutator):
        def visit_call(self, call):
            new = super().visit_call(call)
            return relay.tanh(new.args[0]) if call.op.name == "exp" else new

    x = relay.var("x")
    shared = relay.exp(x)
    out = Swap().visit(relay.Function([x], shared + shared))
    assert out.body.args[0] is out.body.args[1]
    assert out.body.args[0].op.name == "tanh"
    assert relay.testing.count_ops(out) == {"add": 1, "tanh": 1}
    same = relay.Function([x], x + x)
    assert tvm.ir.structural_equal(ExprMutator().visit(same), same)


def test_a_mutator_over_every_kind_of_node() -> None:
    mod = tvm.IRModule()
    p = Prelude(mod)
    _, cons, nil = p.mod.get_type("List")
    x, y, r, t = relay.Var("x"), relay.Var("y"), relay.Var("r"), relay.Var("t")
    match = relay.Match(
        cons(x, nil()),
        [
            relay.Clause(
                relay.PatternConstructor(cons, [relay.PatternVar(y), relay.PatternWildcard()]),
                y,
            ),
            relay.Clause(relay.PatternWildcard(), x),
        ],
    )
    body = relay.Let(
        r, relay.RefCreate(match), relay.Let(t, relay.RefWrite(r, x), relay.RefRead(r))
    )
    whole = relay.Function(
        [x], relay.If(relay.const(True), body, relay.TupleGetItem(relay.Tuple([x]), 0))
    )

    class Seen(ExprMutator):
        def __init__(self) -> None:
            super().__init__()
            self.kinds = set()

        def visit(self, expr):
            self.kinds.add(type(expr).__name__)
            return super().visit(expr)

    mutator = Seen()
    assert tvm.ir.structural_equal(mutator.visit(whole), whole)
    assert {"Match", "RefWrite", "RefRead", "Let", "If", "TupleGetItem"} <= mutator.kinds

    class Nothing(ExprFunctor):
        pass

    with pytest.raises(tvm.TVMError):
        Nothing().visit(whole)


def test_type_functors() -> None:
    class Collect(relay.TypeVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.found = []

        def visit_tensor_type(self, tt) -> None:
            self.found.append(tt.dtype)

    c = Collect()
    c.visit(
        relay.FuncType(
            [relay.TupleType([relay.TensorType((2,)), relay.scalar_type("bool")])],
            relay.RefType(relay.scalar_type("int8")),
        )
    )
    assert c.found == ["float32", "bool", "int8"]

    class Widen(relay.TypeMutator):
        def visit_tensor_type(self, tt):
            return relay.TensorType(tt.shape, "float64")

    assert Widen().visit(relay.TupleType([relay.TensorType((2,))])) == relay.TupleType(
        [relay.TensorType((2,), "float64")]
    )


def test_fused_functions_are_extracted() -> None:
    net, _ = relay.testing.mlp.get_workload(1)
    fused = relay.analysis.extract_fused_functions(relay.transform.InferType()(net))
    assert len(fused) >= 3
    assert all(isinstance(f, relay.Function) for f in fused.values())

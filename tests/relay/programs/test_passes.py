"""Passes as programs use them: alone, in sequence, in contexts, of one's own."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.relay import transform
from relayvm.relay.testing import run_infer_type, run_opt_pass
from tests.relay.programs.machine import RNG


def test_constant_folding() -> None:
    c_data = np.array([1, 2, 3]).astype("float32")
    t = relay.TensorType([1, 2, 3], "float32")

    def before():
        c = relay.const(c_data)
        x = relay.var("x", t)
        y = relay.add(c, c)
        y = relay.multiply(y, relay.const(2, "float32"))
        y = relay.add(x, y)
        z = relay.add(y, c)
        return relay.Function([x], z)

    def expected():
        x = relay.var("x", t)
        c_folded = (c_data + c_data) * 2
        y = relay.add(x, relay.const(c_folded))
        z = relay.add(y, relay.const(c_data))
        return relay.Function([x], z)

    zz = run_opt_pass(before(), transform.FoldConstant())
    zexpected = run_opt_pass(expected(), transform.InferType())
    assert tvm.ir.structural_equal(zz, zexpected)


def test_folding_of_shapes() -> None:
    x = relay.var("x", shape=[8, 9, 10])
    f = relay.Function([x], relay.op.shape_of(x, "int32"))
    got = run_opt_pass(f, transform.FoldConstant())
    assert isinstance(got.body, relay.Constant) and got.body.data.numpy().tolist() == [8, 9, 10]


def test_dead_code_goes() -> None:
    x = relay.var("x", shape=(3,))
    a, b = relay.Var("a"), relay.Var("b")
    f = relay.Function([x], relay.Let(a, relay.exp(x), relay.Let(b, x + x, b)))
    got = run_opt_pass(f, transform.DeadCodeElimination())
    assert relay.testing.count_ops(got) == {"add": 1}
    got = run_opt_pass(f, transform.DeadCodeElimination(inline_once=True))
    assert isinstance(got.body, relay.Call) and got.body.op.name == "add"


def test_effects_are_not_dead() -> None:
    r, u = relay.Var("r"), relay.Var("u")
    write = relay.RefWrite(r, relay.const(2))
    f = relay.Function(
        [], relay.Let(r, relay.RefCreate(relay.const(1)), relay.Let(u, write, relay.RefRead(r)))
    )
    mod = transform.DeadCodeElimination()(transform.InferType()(tvm.IRModule.from_expr(f)))
    assert relay.create_executor("vm", mod).evaluate()().numpy() == 2


def test_normal_forms_of_a_shared_node() -> None:
    x = relay.var("x", shape=(2,))
    shared = relay.exp(x)
    f = relay.Function([x], shared + shared)
    anf = run_opt_pass(f, transform.ToANormalForm())
    assert isinstance(anf.body, relay.Let)
    assert relay.analysis.detect_feature(anf) == {
        relay.analysis.Feature.fVar,
        relay.analysis.Feature.fFunction,
        relay.analysis.Feature.fOp,
        relay.analysis.Feature.fCall,
        relay.analysis.Feature.fLet,
    }
    gnf = run_opt_pass(anf, transform.ToGraphNormalForm())
    assert tvm.ir.structural_equal(gnf, run_infer_type(f))


def test_blocks_of_branches() -> None:
    x = relay.var("x", shape=(), dtype="bool")
    y = relay.var("y", shape=(), dtype="float32")
    shared = y + y
    f = relay.Function([x, y], relay.If(x, shared + y, shared * y))
    bbnf = run_opt_pass(f, transform.ToBasicBlockNormalForm())
    assert relay.analysis.check_basic_block_normal_form(bbnf)
    assert not relay.analysis.check_basic_block_normal_form(f)


def test_common_subexpressions() -> None:
    x = relay.var("x", shape=(1, 16))
    y1 = relay.nn.relu(x)
    y2 = relay.nn.relu(x)
    f = relay.Function([x], (y1 + relay.const(1.0)) + (y2 + relay.const(1.0)))
    z = run_opt_pass(f, transform.EliminateCommonSubexpr())
    assert relay.testing.count_ops(z) == {"nn.relu": 1, "add": 2}

    def fskip(expr) -> bool:
        return isinstance(expr, relay.Call) and expr.op.name == "add"

    z = run_opt_pass(f, transform.EliminateCommonSubexpr(fskip))
    assert relay.testing.count_ops(z) == {"nn.relu": 1, "add": 3}


def test_fusion_and_back() -> None:
    x = relay.var("x", shape=(10, 20))
    z = relay.exp(relay.add(x, relay.const(1.0)))
    w = relay.squeeze(z)
    f = relay.Function([x], w)
    fused = run_opt_pass(f, transform.FuseOps())
    assert isinstance(fused.body.op, relay.Function)
    assert int(fused.body.op.attrs["Primitive"]) == 1
    assert len([c for c in calls(fused) if isinstance(c.op, relay.Function)]) == 1
    defused = run_opt_pass(fused, transform.DefuseOps())
    assert tvm.ir.structural_equal(defused, run_infer_type(f))


def calls(expr) -> list:
    found = []
    relay.analysis.post_order_visit(
        expr, lambda n: found.append(n) if isinstance(n, relay.Call) else None
    )
    return found


def test_fusion_of_a_layer() -> None:
    x = relay.var("x", shape=(1, 3, 8, 8))
    w = relay.var("w", shape=(4, 3, 3, 3))
    y = relay.nn.relu(relay.nn.conv2d(x, w, channels=4, kernel_size=(3, 3)) + relay.const(1.0))
    f = relay.Function([x, w], relay.nn.conv2d(y, relay.var("v", shape=(4, 4, 1, 1))))
    f = relay.Function([*f.params, *relay.analysis.free_vars(f)], f.body)
    fused = run_opt_pass(f, transform.FuseOps(fuse_opt_level=2))
    groups = [c for c in calls(fused) if isinstance(c.op, relay.Function)]
    assert [relay.testing.count_ops(g.op) for g in groups] == [
        {"nn.conv2d": 1, "add": 1, "nn.relu": 1},
        {"nn.conv2d": 1},
    ]
    apart = run_opt_pass(f, transform.FuseOps(fuse_opt_level=0))
    assert len([c for c in calls(apart) if isinstance(c.op, relay.Function)]) == 4


def test_inference_is_simplified() -> None:
    x = relay.var("x", shape=(1, 4, 2, 2))
    vs = [relay.var(n, shape=(4,)) for n in ("g", "b", "m", "v")]
    f = relay.Function([x, *vs], relay.nn.dropout(relay.nn.batch_norm(x, *vs)[0]))
    simple = run_opt_pass(f, transform.SimplifyInference())
    ops = relay.testing.count_ops(simple)
    assert "nn.batch_norm" not in ops and "nn.dropout" not in ops


def test_inlining() -> None:
    mod = tvm.IRModule()
    x = relay.var("x", shape=(2,))
    g = relay.GlobalVar("g")
    mod[g] = relay.Function([x], x + x).with_attr("Inline", 1)
    y = relay.var("y", shape=(2,))
    mod["main"] = relay.Function([y], g(y) * y)
    mod = transform.Inline()(mod)
    assert relay.testing.count_ops(mod["main"]) == {"add": 1, "multiply": 1}


def test_unused_functions_go() -> None:
    mod = tvm.IRModule()
    x = relay.var("x", shape=(2,))
    for name in ("used", "unused"):
        mod[name] = relay.Function([x], x)
    mod["main"] = relay.Function([x], mod.get_global_var("used")(x))
    mod = transform.RemoveUnusedFunctions()(mod)
    assert {v.name_hint for v in mod.get_global_vars()} == {"used", "main"}


def test_lambda_lifting_and_eta_expansion() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    inner = relay.Function([y], x + y)
    mod = tvm.IRModule.from_expr(relay.Function([x], inner))
    mod = transform.LambdaLift()(transform.InferType()(mod))
    assert len(mod.functions) == 2
    mod = tvm.IRModule()
    mod["aux"] = relay.Function([y], y)
    mod["main"] = relay.Function([], mod.get_global_var("aux"))
    mod = transform.InferType()(mod)
    expanded = transform.EtaExpand(expand_global_var=True)(mod)
    assert isinstance(expanded["main"].body, relay.Function)


def test_continuations() -> None:
    x = relay.var("x", shape=[])
    f = run_infer_type(relay.Function([x], relay.exp(x) + x))
    cps = run_infer_type(transform.to_cps(f))
    assert len(cps.params) == 2
    back = run_infer_type(transform.un_cps(cps))
    ex = relay.create_executor()
    arg = np.float32(0.5)
    tvm.testing.assert_allclose(
        ex.evaluate(back)(arg).numpy(), ex.evaluate(f)(arg).numpy(), rtol=1e-6
    )


def test_gradients() -> None:
    x = relay.var("x", shape=(3,))
    f = run_infer_type(relay.Function([x], relay.sum(x * x)))
    for mode in ("higher_order", "first_order"):
        back = run_infer_type(transform.gradient(f, mode=mode))
        a = RNG.random(3).astype("float32")
        forward, (grad,) = relay.create_executor().evaluate(back)(a)
        tvm.testing.assert_allclose(forward.numpy(), (a * a).sum(), rtol=1e-5)
        tvm.testing.assert_allclose(grad.numpy(), 2 * a, rtol=1e-5)


def test_gradient_through_a_reference_and_an_if() -> None:
    x = relay.var("x", shape=())
    r, u = relay.Var("r"), relay.Var("u")
    squared = relay.RefRead(r) * relay.RefRead(r)
    body = relay.Let(
        r, relay.RefCreate(x), relay.Let(u, relay.RefWrite(r, x + x), relay.If(x > x, x, squared))
    )
    f = run_infer_type(relay.Function([x], body))
    back = run_infer_type(transform.gradient(f))
    forward, (grad,) = relay.create_executor().evaluate(back)(np.float32(3))
    assert forward.numpy() == 36 and grad.numpy() == 24
    relay.testing.check_grad(relay.Function([x], relay.exp(x) * x))


def test_a_sequence_in_a_context() -> None:
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(
        relay.Function([x], relay.nn.dropout(x) + (relay.const(1.0) + 2.0))
    )
    seq = tvm.transform.Sequential(
        [
            transform.InferType(),
            transform.SimplifyInference(),
            transform.FoldConstant(),
            transform.EliminateCommonSubexpr(),
        ],
        opt_level=1,
    )
    assert seq.info.name == "sequential" and seq.info.opt_level == 1
    with tvm.transform.PassContext(opt_level=3):
        high = seq(mod)
    with tvm.transform.PassContext(opt_level=0):
        low = seq(mod)
    assert relay.testing.count_ops(high["main"]) == {"add": 1}
    assert relay.testing.count_ops(low["main"]) == {"add": 2}
    with tvm.transform.PassContext(opt_level=3, disabled_pass=["FoldConstant"]):
        assert relay.testing.count_ops(seq(mod)["main"])["add"] == 2
    with tvm.transform.PassContext(opt_level=0, required_pass=["FoldConstant"]):
        assert relay.testing.count_ops(seq(mod)["main"])["add"] == 1


def test_names_and_levels_of_passes() -> None:
    assert transform.FoldConstant().info.name == "FoldConstant"
    assert transform.FoldConstant().info.opt_level == 2
    assert transform.FuseOps().info.opt_level == 0
    assert isinstance(transform.FuseOps(), tvm.transform.Pass)
    assert tvm.transform.PassContext.current().opt_level == 2
    with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 10}) as ctx:
        assert tvm.transform.PassContext.current() is ctx
        assert ctx.config["relay.FuseOps.max_depth"] == 10
    with pytest.raises(Exception, match="unknown"):
        tvm.transform.PassContext(config={"relay.unknown": 1})


def test_a_function_pass_of_ones_own() -> None:
    @transform.function_pass(opt_level=1)
    class TestReplaceFunc:
        def __init__(self, new_func) -> None:
            self.new_func = new_func

        def transform_function(self, func, mod, ctx):
            return self.new_func

    x = relay.var("x", shape=(10, 20))
    f1 = relay.Function([x], x)
    mod = tvm.IRModule({"a": relay.Function([x], relay.log(x)), "b": relay.Function([x], x + x)})
    fpass = TestReplaceFunc(f1)
    assert fpass.info.name == "TestReplaceFunc" and isinstance(fpass, transform.FunctionPass)
    out = fpass(mod)
    expected = run_infer_type(f1)
    assert all(tvm.ir.structural_equal(f, expected) for f in out.functions.values())
    assert not tvm.ir.structural_equal(mod["a"], f1)


def test_a_module_pass_of_ones_own() -> None:
    @tvm.transform.module_pass(opt_level=2, name="add_abs", required=[])
    def add_abs(mod, ctx):
        tp = relay.TensorType((10,), "float32")
        x = relay.var("x", tp)
        gv = relay.GlobalVar("abs")
        new_mod = tvm.IRModule({gv: relay.Function([x], relay.abs(x))})
        new_mod.update(mod)
        return new_mod

    assert isinstance(add_abs, tvm.transform.ModulePass) and add_abs.info.name == "add_abs"
    y = relay.var("y", shape=(10,))
    mod = add_abs(tvm.IRModule.from_expr(relay.Function([y], y)))
    assert "abs" in mod and "main" in mod


def test_instruments() -> None:
    seen = []

    @tvm.instrument.pass_instrument
    class Counter:
        def enter_pass_ctx(self) -> None:
            seen.append("enter")

        def exit_pass_ctx(self) -> None:
            seen.append("exit")

        def should_run(self, mod, info) -> bool:
            return info.name != "FoldConstant"

        def run_before_pass(self, mod, info) -> None:
            seen.append(f"before {info.name}")

        def run_after_pass(self, mod, info) -> None:
            seen.append(f"after {info.name}")

    timing = tvm.ir.instrument.PassTimingInstrument()
    x = relay.var("x", shape=(2,))
    mod = tvm.IRModule.from_expr(relay.Function([x], x))
    with tvm.transform.PassContext(opt_level=3, instruments=[Counter(), timing]):
        mod = transform.InferType()(mod)
        mod = transform.FoldConstant()(mod)
        profile = timing.render()
    assert "InferType" in profile
    assert seen[0] == "enter" and seen[-1] == "exit"
    assert "before InferType" in seen and "before FoldConstant" not in seen


def test_partial_evaluation() -> None:
    x = relay.var("x", shape=())
    y = relay.Var("y")
    f = relay.Function([x], relay.Let(y, relay.Function([], x * x), y()))
    out = run_opt_pass(f, transform.PartialEvaluate())
    a = np.float32(3)
    assert relay.create_executor().evaluate(out)(a).numpy() == 9
    assert not any(isinstance(c.op, relay.Var) for c in calls(out))


def test_printing_of_a_module_between_passes(capsys) -> None:
    x = relay.var("x", shape=(2,))
    tvm.transform.PrintIR("here")(tvm.IRModule.from_expr(relay.Function([x], x)))
    out = capsys.readouterr()
    assert "@main" in out.out + out.err


def test_changing_the_batch() -> None:
    net, _ = relay.testing.mlp.get_workload(1)
    x = net["main"].params[0]
    changed = run_opt_pass(net["main"], transform.ChangeBatch({x: 0}, batch_size=5))
    assert changed.params[0].checked_type.shape[0] == 5


def test_first_order_gradients_of_a_whole_module() -> None:
    x = relay.var("x", shape=(2,))
    mod = transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], relay.sum(x * x))))
    mod = transform.FirstOrderGradient()(mod)
    tensor = relay.TensorType((2,))
    assert mod["main"].ret_type == relay.TupleType(
        [relay.scalar_type("float32"), relay.TupleType([tensor])]
    )
    assert isinstance(transform.BatchingOps(), tvm.transform.Sequential)
    assert transform.FoldConstantExpr(relay.const(1) + relay.const(2), mod).data.numpy() == 3

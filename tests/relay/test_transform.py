"""Passes by TVM's names: contexts, sequences, instruments, passes of users."""

from __future__ import annotations

import re

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.ir import structural_equal
from relayvm.relay.pass_table import ROWS

X = relay.var("x", shape=(2,))


def module():
    return relay.parse(
        "def @main(%x: Tensor[(2,), float32]) { let %a = add(1f, 2f); let %b = %x + %a; %b }"
    )


def constants(mod):
    found = []
    relay.analysis.post_order_visit(
        mod["main"], lambda e: found.append(float(e.data)) if isinstance(e, relay.Constant) else 0
    )
    return found


# --- passes of the table ---------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_pass_of_the_table_runs_and_gives_types(row):
    made = getattr(relay.transform, row.name)
    needed = {"PlanDevices": None, "ChangeBatch": {}, "SplitArgs": 2, "SimplifyFCTranspose": []}
    given = (needed[row.name],) if row.name in needed else ()
    one = made(*given)
    assert one.info.name == row.name and one.info.opt_level == row.opt_level
    assert isinstance(one, relay.transform.FunctionPass) == row.is_function_pass
    assert isinstance(one, tvm.transform.ModulePass) != row.is_function_pass
    result = one(module())
    assert result["main"].checked_type is not None
    assert made.__doc__


def test_a_pass_leaves_the_module_that_it_is_given():
    mod = module()
    result = relay.transform.FoldConstant()(mod)
    assert constants(mod) == [1, 2] and constants(result) == [3]
    assert relay.transform.InferType()(result) is result


def test_parameters_that_mean_nothing_here_are_refused():
    with pytest.raises(RelayError, match="knows fold_qnn=False only"):
        relay.transform.FoldConstant(fold_qnn=True)(module())
    with pytest.raises(TypeError):
        relay.transform.FoldConstant(nonsense=1)


def test_what_fskip_holds_for_is_not_shared():
    twice = tvm.IRModule.from_expr(relay.Function([X], relay.exp(X) + relay.exp(X)))
    shared = relay.transform.EliminateCommonSubexpr()(twice)["main"].body
    assert shared.args[0] is shared.args[1]
    kept = relay.transform.EliminateCommonSubexpr(lambda e: e.op.name == "exp")(twice)["main"].body
    assert kept.args[0] is not kept.args[1]


def test_functions_that_no_entry_reaches_are_removed():
    mod = relay.parse("def @main() { 1 }\ndef @f() { @g() }\ndef @g() { 2 }")
    left = relay.transform.RemoveUnusedFunctions()(mod)
    assert [v.name for v in left] == ["main"]
    kept = relay.transform.RemoveUnusedFunctions(["f"])(mod)
    assert [v.name for v in kept] == ["f", "g"]
    with pytest.raises(RelayError, match="no function `@h`"):
        relay.transform.RemoveUnusedFunctions(["h"])(mod)


def test_fusion_follows_the_level_of_the_context():
    chain = tvm.IRModule.from_expr(relay.Function([X], relay.exp(relay.exp(X))))

    def groups(level):
        with tvm.transform.PassContext(opt_level=level):
            return relay.transform.FuseOps()(chain).astext().count("Primitive=1")

    assert groups(0) == 2 and groups(1) == 1


def test_continuations_come_and_go():
    mod = relay.parse("def @main(%x: int32) { @f(%x) + 1 }\ndef @f(%x: int32) { %x }")
    turned = relay.transform.to_cps(mod["main"], mod)
    assert len(turned.params) == 2 and "f_cps" in mod
    mod["back"] = relay.transform.un_cps(turned)
    whole = relay.scalar_type("int32")
    typed = relay.transform.InferType()(mod)
    assert typed["back"].checked_type == relay.FuncType([whole], whole)
    with pytest.raises(RelayError, match="takes no continuation"):
        relay.transform.un_cps(mod["f"])


def test_function_values_become_data():
    mod = relay.parse(
        "def @main(%x: int32) { let %f = fn (%y: int32) { %y + %x }; @twice(%f, %x) }\n"
        "def @twice(%f: fn (int32) -> int32, %x: int32) { %f(%f(%x)) }"
    )
    result = relay.transform.Defunctionalization(mod["main"], mod)
    assert "fn (" not in result.body.astext() and len(mod.get_global_type_vars()) == 1


LISTS = "type List[A] { Cons(A, List[A]), Nil }\n"
HIGHER_ORDER = {
    "a polymorphic local function": """
        def @simple[A, B](%f: fn (A) -> B, %xs: A) -> B { %f(%xs) }
        def @main(%l: Tensor[(5, 5), float32]) -> Tensor[(5, 5), float32] {
          %0 = fn [A](%x: A) -> A { %x };
          @simple(%0, %l)
        }""",
    "a recursive global that takes one": LISTS
    + """
        def @id[A](%x: A) -> A { %x }
        def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
          match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
        }
        def @main(%l: List[float32]) -> List[float32] { @map(@id, %l) }""",
    "functions that grow with the data": LISTS
    + """
        def @sum(%f: fn (int32) -> int32, %k: List[int32]) -> int32 {
          match (%k) {
            Cons(%x, %rest) => { %0 = fn (%n: int32) -> int32 { %x + %f(%n) }; @sum(%0, %rest) },
            Nil => %f(0),
          }
        }
        def @id[A](%x: A) -> A { %x }
        def @main(%l: List[int32]) -> int32 { @sum(@id, %l) }""",
    "a polymorphic local function over a list": LISTS
    + """
        def @map[A, B](%f: fn (A) -> B, %xs: List[A]) -> List[B] {
          match (%xs) { Cons(%x, %rest) => Cons(%f(%x), @map(%f, %rest)), Nil => Nil }
        }
        def @main(%l: List[int32]) -> List[int32] {
          let %id = fn [A](%x: A) -> A { %x };
          @map(%id, @map(%id, %l))
        }""",
}


@pytest.mark.parametrize("name", HIGHER_ORDER)
def test_a_higher_order_program_becomes_one_of_the_first_order(name):
    mod = relay.parse(HIGHER_ORDER[name])
    mod = relay.transform.InferType()(mod)
    mod["main"] = relay.transform.Defunctionalization(mod["main"], mod)
    text = relay.transform.InferType()(mod).astext()
    assert "fn (" not in text and "[A" not in text and "@apply_Fn0" in text
    assert _result(text) == _result(HIGHER_ORDER[name])


def _result(text):
    if "List" not in text:
        machine = tvm.VirtualMachine(tvm.compile(tvm.parse(text), entries=["main"]))
        return machine.run(np.full((5, 5), 3, "float32")).tolist()
    items = "Cons(1f, Cons(2f, Nil))" if "float32" in text else "Cons(1, Cons(2, Nil))"
    result = tvm.VirtualMachine(
        tvm.compile(tvm.parse(f"{text}\ndef @run() {{ @main({items}) }}"), entries=["run"])
    ).invoke("run")
    return str(result)


# --- contexts and sequences ------------------------------------------------------------------


def test_a_context_is_current_inside_of_its_block():
    outside = tvm.transform.PassContext.current()
    assert outside.opt_level == 2
    with tvm.transform.PassContext(opt_level=0) as outer:
        with tvm.transform.PassContext(opt_level=3, config={"relay.FuseOps.max_depth": 4}) as inner:
            assert tvm.transform.PassContext.current() is inner
            assert inner.config["relay.FuseOps.max_depth"] == 4
        assert tvm.transform.PassContext.current() is outer
    assert tvm.transform.PassContext.current() is outside


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opt_level": 9}, "from 0 to 4"),
        ({"config": {"nonsense": 1}}, "no configuration `nonsense`"),
        ({"config": {"relay.FuseOps.max_depth": "x"}}, "of type int, not `'x'`"),
    ],
)
def test_wrong_contexts_are_refused(options, message):
    with pytest.raises(RelayError, match=re.escape(message)):
        tvm.transform.PassContext(**options)


def test_a_list_of_passes_is_a_list():
    with pytest.raises(TypeError, match="required_pass"):
        tvm.transform.PassContext(required_pass="FoldConstant")
    with pytest.raises(TypeError, match="list of Pass"):
        tvm.transform.Sequential(passes=relay.transform.FoldConstant())


def test_configurations_are_listed_with_their_types():
    assert tvm.transform.PassContext.list_configs()["relay.FuseOps.max_depth"] == {"type": "int"}


@pytest.mark.parametrize(
    ("context", "folded"),
    [
        ({"opt_level": 2}, True),
        ({"opt_level": 1}, False),
        ({"opt_level": 1, "required_pass": ["FoldConstant"]}, True),
        ({"opt_level": 3, "disabled_pass": ["FoldConstant"]}, False),
    ],
)
def test_a_sequence_runs_what_the_context_allows(context, folded):
    sequence = tvm.transform.Sequential([relay.transform.FoldConstant()])
    with tvm.transform.PassContext(**context):
        assert (constants(sequence(module())) == [3]) == folded


def test_a_sequence_runs_what_a_pass_requires():
    ran = []

    @tvm.transform.module_pass(opt_level=1, required=["FoldConstant"])
    def last(mod, ctx):
        ran.append(constants(mod))
        return mod

    tvm.transform.Sequential([last], name="both")(module())
    assert ran == [[3]]
    with pytest.raises(RelayError, match="no pass `Nonsense`"):
        broken = tvm.transform.module_pass(lambda m, c: m, 0, "broken", ["Nonsense"])
        tvm.transform.Sequential([broken])(module())


# --- passes of users -------------------------------------------------------------------------


def test_a_function_becomes_a_module_pass():
    @tvm.transform.module_pass(opt_level=2)
    def add_abs(mod, ctx):
        mod["added"] = relay.Function([X], relay.abs(X))
        return mod

    assert isinstance(add_abs, tvm.transform.ModulePass)
    assert (add_abs.info.name, add_abs.info.opt_level) == ("add_abs", 2)
    mod = module()
    assert "added" in add_abs(mod) and "added" not in mod


def test_a_class_becomes_a_module_pass():
    @tvm.transform.module_pass(opt_level=1, name="own")
    class Pipeline:
        """What it does."""

        def __init__(self, fold):
            self.fold = fold

        def transform_module(self, mod, ctx):
            return relay.transform.FoldConstant()(mod) if self.fold else mod

    made = Pipeline(fold=True)
    assert made.info.name == "own" and made.fold is True and Pipeline.__doc__ == "What it does."
    assert constants(made(module())) == [3] and constants(Pipeline(False)(module())) == [1, 2]


def test_a_function_becomes_a_function_pass():
    @relay.transform.function_pass(opt_level=1)
    def double(func, mod, ctx):
        assert isinstance(ctx, tvm.transform.PassContext) and func is mod["main"]
        return relay.Function(func.params, func.body + func.body)

    assert isinstance(double, relay.transform.FunctionPass)
    result = double(module())
    assert result["main"].ret_type == relay.TensorType((2,))


def test_a_class_becomes_a_function_pass_that_skips_what_is_marked():
    @relay.transform.function_pass(opt_level=1)
    class Replace:
        def __init__(self, new):
            self.new = new

        def transform_function(self, func, mod, ctx):
            return self.new

    new = relay.Function([X], relay.log(X))
    mod = module()
    mod["kept"] = relay.Function([X], X).with_attr("SkipOptimization", 1)
    result = Replace(new)(mod)
    assert result["main"].body.op.name == "log"
    assert isinstance(result["kept"].body, relay.Var)


def test_a_pass_that_gives_something_else_is_told():
    wrong = tvm.transform.module_pass(lambda mod, ctx: None, 0, "wrong")
    with pytest.raises(RelayError, match="pass `wrong` returned a `NoneType`, no module"):
        wrong(module())
    wrong = relay.transform.function_pass(lambda func, mod, ctx: X, 0, "wrong")
    with pytest.raises(RelayError, match="pass `wrong` returned a `Var`, no function"):
        wrong(module())
    with pytest.raises(ValueError, match="opt_level"):
        tvm.transform.module_pass(lambda mod, ctx: mod)


def test_a_pass_is_applied_to_chosen_functions():
    mod = module()
    mod["other"] = mod["main"]
    chosen = tvm.transform.ApplyPassToFunction(relay.transform.FoldConstant(), "oth.*")
    result = chosen(mod)
    assert structural_equal(result["main"], mod["main"])
    assert not structural_equal(result["other"], mod["other"])
    strict = tvm.transform.ApplyPassToFunction(relay.transform.FoldConstant(), "none", True)
    with pytest.raises(RelayError, match="no function's name fits `none`"):
        strict(mod)


def test_a_module_is_printed_between_passes(capsys):
    mod = module()
    assert tvm.transform.PrintIR("here")(mod).astext() == mod.astext()
    assert capsys.readouterr().out == f"PrintIR(here):\n{mod}\n"


# --- instruments -----------------------------------------------------------------------------


@tvm.instrument.pass_instrument
class Log:
    def __init__(self, forbidden=()):
        self.lines = []
        self.forbidden = forbidden

    def enter_pass_ctx(self):
        self.lines.append("enter")

    def exit_pass_ctx(self):
        self.lines.append("exit")

    def should_run(self, mod, info):
        return info.name not in self.forbidden

    def run_before_pass(self, mod, info):
        self.lines.append(f"before {info.name}")

    def run_after_pass(self, mod, info):
        self.lines.append(f"after {info.name}")


def test_an_instrument_sees_passes_come_and_go():
    log = Log()
    assert isinstance(log, tvm.instrument.PassInstrument)
    with tvm.transform.PassContext(instruments=[log]):
        relay.transform.InferType()(module())
    assert log.lines == ["enter", "before InferType", "after InferType", "exit"]


def test_a_class_of_instruments_stays_what_it_is():
    made = tvm.instrument.pass_instrument(tvm.instrument.PrintAfterAll)
    assert made is tvm.instrument.PrintAfterAll
    assert Log.__name__ == "Log" and Log(("a",)).forbidden == ("a",)


def test_passes_of_some_names_are_printed(capsys):
    printing = tvm.instrument.PassPrintingInstrument(["InferType"], ["FoldConstant"])
    with tvm.transform.PassContext(instruments=[printing]):
        relay.transform.InferType()(module())
        relay.transform.FoldConstant()(module())
    heads = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Print IR")]
    assert heads == ["Print IR before: InferType", "Print IR after: FoldConstant"]


def test_an_instrument_forbids_passes_that_the_context_does_not_ask_for():
    log = Log(forbidden=["FoldConstant"])
    with tvm.transform.PassContext(instruments=[log]):
        assert constants(relay.transform.FoldConstant()(module())) == [1, 2]
    with tvm.transform.PassContext(instruments=[log], required_pass=["FoldConstant"]):
        assert constants(relay.transform.FoldConstant()(module())) == [3]


def test_other_instruments_take_over():
    first, second = Log(), Log()
    with tvm.transform.PassContext(instruments=[first]) as context:
        context.override_instruments([second])
        relay.transform.InferType()(module())
    assert first.lines == ["enter", "exit"]
    assert second.lines == ["enter", "before InferType", "after InferType", "exit"]


def test_where_one_instrument_fails_to_enter_the_others_leave():
    class Broken(tvm.instrument.PassInstrument):
        def enter_pass_ctx(self):
            raise ValueError("broken")

    log, late = Log(), Log()
    context = tvm.transform.PassContext(instruments=[log, Broken(), late])
    with pytest.raises(ValueError, match="broken"):
        context.__enter__()
    assert log.lines == ["enter", "exit"] and late.lines == [] and context.instruments == []


def test_times_are_shown_with_what_ran_inside():
    timing = tvm.instrument.PassTimingInstrument()
    with tvm.transform.PassContext(instruments=[timing]):
        tvm.transform.Sequential([relay.transform.InferType(), relay.transform.FoldConstant()])(
            module()
        )
        shown = timing.render()
    names = [re.sub(r": \d+us \[-?\d+us\]$", "", line) for line in shown.splitlines()]
    assert names == ["sequential", "  InferType", "  FoldConstant"]


def test_modules_are_printed_around_passes(capsys, tmp_path):
    printers = [tvm.instrument.PrintBeforeAll(), tvm.instrument.PrintAfterAll()]
    with tvm.transform.PassContext(instruments=[*printers, tvm.instrument.DumpIR(tmp_path)]):
        result = relay.transform.FoldConstant()(module())
    out = capsys.readouterr().out
    assert "Before Running Pass: PassInfo(opt_level=2, name='FoldConstant')" in out
    assert str(module()) in out and str(result) in out
    assert (tmp_path / "000_FoldConstant.relay").read_text() == result.astext()


# --- functions over expressions --------------------------------------------------------------


def test_nodes_get_spans_in_the_text_of_the_program():
    built = tvm.IRModule.from_expr(relay.Function([X], relay.exp(X)))
    result = relay.transform.AnnotateSpans()(built)
    assert result["main"].body.span.source.text == built.astext()
    assert structural_equal(result, relay.transform.InferType()(built))


def test_the_batch_gets_another_size():
    data = relay.var("data", shape=(1, 4))
    weight = relay.var("weight", shape=(3, 4))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.dense(data, weight)))
    result = relay.transform.ChangeBatch({data: 0}, batch_size=8)(mod)
    assert result["main"].ret_type == relay.TensorType((8, 3))
    assert result["main"].params[1] is not data


def test_one_expression_is_folded_or_named():
    folded = relay.transform.FoldConstantExpr(relay.const(1.0) + relay.const(2.0), module())
    assert folded.data == 3
    named = relay.transform.ToANormalFormExpr(relay.exp(relay.exp(X)))
    assert isinstance(named, relay.Let) and named.value.op.name == "exp"


def test_chosen_operators_compute_with_another_dtype():
    function = relay.Function([X], relay.exp(relay.tanh(relay.exp(X))))
    changed = relay.transform.recast(function, "float16", "float16", ops=["exp"], skip_layers=[-1])
    tanh = changed.body.args[0]
    assert changed.body.op.name == "exp" and tanh.op.name == "tanh"
    assert [tanh.args[0].op.name, tanh.args[0].args[0].op.name] == ["cast", "exp"]
    typed = relay.transform.InferType()(tvm.IRModule.from_expr(changed))
    assert typed["main"].ret_type == relay.TensorType((2,))
    pair = relay.Function([X], relay.concatenate([X, X], 0))
    both = relay.transform.recast(pair, "float16", "float16", ops=["concatenate"])
    assert both.body.args[0].args[0].fields[0].op.name == "cast"


def test_a_function_that_calls_itself_finds_its_form_with_a_continuation():
    text = """
        def @main(%x: int32) -> int32 { if (%x <= 0) { 0 } else { %x + @main(%x - 1) } }"""
    mod = relay.transform.InferType()(relay.parse(text))
    form = relay.transform.to_cps(mod["main"], mod=mod)
    mod["form"] = form
    x = relay.var("x", "int32")
    answer = relay.var("answer", "int32")
    identity = relay.Function([answer], answer)
    use = relay.Function([x], relay.Call(mod.get_global_var("form"), [x, identity]))
    mod["main"] = use
    mod = relay.transform.InferType()(mod)
    assert relay.create_executor("vm", mod).evaluate()(4).numpy() == 10


def test_marked_functions_are_inlined_as_values_and_leave():
    mod = tvm.IRModule({})
    one = relay.Function([], relay.const(1)).with_attr("Inline", 1)
    two = relay.Function([], relay.const(2)).with_attr("Inline", 1)
    kept = relay.Function([], relay.const(3)).with_attr("Inline", 1)
    mod["one"], mod["two"], mod["kept"] = one, two, kept
    p = relay.var("p", "bool")
    pick = relay.If(p, mod.get_global_var("one"), mod.get_global_var("two"))
    mod["main"] = relay.Function([p], relay.Call(pick, []))
    mod = relay.transform.Inline()(relay.transform.InferType()(mod))
    assert {g.name_hint for g in mod.get_global_vars()} == {"main", "kept"}
    branches = mod["main"].body.op
    assert branches.true_branch.body.data.numpy() == 1
    assert branches.false_branch.body.data.numpy() == 2


def test_a_pass_of_the_user_that_changes_the_library_shows_in_the_text():
    mod = relay.parse("def @main(%x: List[int32]) { @rev(%x) }")

    @relay.transform.function_pass(opt_level=0)
    def bind_one(function, mod, ctx):
        body = relay.Let(relay.var("one"), relay.const(1), function.body)
        return relay.Function(function.params, body, function.ret_type, function.type_params)

    @relay.transform.function_pass(opt_level=0)
    def keep(function, mod, ctx):
        return function

    changed = bind_one(mod)
    assert str(changed).count("let %one") == len(changed.functions)
    assert structural_equal(changed, tvm.parse(str(changed)))
    assert not structural_equal(changed, mod)
    kept = keep(mod)
    assert "def @rev" not in str(kept) and structural_equal(kept, tvm.parse(str(kept)))

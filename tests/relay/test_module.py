"""`IRModule`: a program that can be changed."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import relayvm as tvm
from relayvm import relay
from relayvm.base.diagnostics import RelayError
from relayvm.ir import structural_equal
from relayvm.ir.module import Module
from relayvm.relay.module import unwrap, wrap

X = relay.var("x", shape=(2,))
IDENTITY = relay.Function([X], X)


def test_functions_are_found_by_name_and_by_variable():
    f = relay.GlobalVar("f")
    mod = tvm.IRModule({f: IDENTITY})
    assert mod["f"] is mod[f] is mod[relay.GlobalVar("f")] is IDENTITY
    assert "f" in mod and f in mod and "g" not in mod
    assert mod.get_global_var("f") is f and mod.functions[f] is IDENTITY
    assert mod.functions_items() == [(f, IDENTITY)]
    assert list(mod) == mod.get_global_vars() == [f] and len(mod) == 1


def test_a_function_that_is_missing_is_named():
    with pytest.raises(tvm.TVMError, match="no function `@g`; it has `@f`"):
        tvm.IRModule({"f": IDENTITY})["g"]


def test_setting_and_deleting_changes_the_module():
    mod = tvm.IRModule()
    mod["f"] = IDENTITY
    before = mod.module
    other = relay.Function([X], relay.exp(X))
    mod["f"] = other
    assert mod["f"] is other and before["f"] is IDENTITY
    mod["g"] = relay.const(1.0)
    assert isinstance(mod["g"], relay.Function) and mod["g"].params == ()
    mod["h"] = mod.get_global_var("f")
    assert mod["h"] is other
    del mod["f"]
    assert "f" not in mod
    mod.update_func(relay.GlobalVar("k"), IDENTITY)
    assert mod["k"] is IDENTITY


def test_functions_may_call_others_that_are_set_later():
    mod = tvm.IRModule()
    even, odd = relay.GlobalVar("even"), relay.GlobalVar("odd")
    n = relay.var("n", "int32")
    m = relay.var("m", "int32")
    ret = relay.scalar_type("bool")
    one = relay.const(1)
    mod[even] = relay.Function([n], relay.If(n < one, relay.const(True), odd(n - one)), ret)
    mod[odd] = relay.Function([m], relay.If(m < one, relay.const(False), even(m - one)), ret)
    assert relay.transform.InferType()(mod)[even].checked_type == relay.FuncType(
        [relay.scalar_type("int32")], ret
    )


def test_an_expression_becomes_main_over_its_free_variables():
    y = relay.var("y", shape=(2,))
    mod = tvm.IRModule.from_expr(X + y)
    assert mod["main"].params == (X, y)
    assert tvm.IRModule.from_expr(IDENTITY)["main"] is IDENTITY
    named = IDENTITY.with_attr("global_symbol", "f")
    assert "f" in tvm.IRModule.from_expr(named)
    assert tvm.IRModule.from_expr(mod) is mod
    g = relay.GlobalVar("g")
    both = tvm.IRModule.from_expr(relay.Function([X], g(X)), {g: IDENTITY})
    assert both["g"] is IDENTITY


def nat_module():
    nat = relay.GlobalTypeVar("nat")
    zero, succ = relay.Constructor("Z", [], nat), relay.Constructor("S", [nat()], nat)
    mod = tvm.IRModule()
    mod[nat] = relay.TypeData(nat, [], [zero, succ])
    return mod, nat, zero, succ


def test_data_types_are_found_by_their_names():
    mod, nat, zero, succ = nat_module()
    assert mod.get_global_type_var("nat") is nat and mod.get_global_type_vars() == [nat]
    assert mod.get_type("nat") == (nat, zero, succ)
    assert mod[nat] is mod.type_definitions[nat] and nat in mod
    assert mod.get_constructor(succ.tag) is succ
    with pytest.raises(RelayError, match="no type `other`; it has `nat`"):
        mod.get_global_type_var("other")
    with pytest.raises(RelayError, match="no constructor with the tag 5"):
        mod.get_constructor(5)


def test_a_program_over_a_data_type_has_types_and_reads_back():
    mod, nat, zero, succ = nat_module()
    n, m = relay.var("n", nat()), relay.var("m")
    clauses = [
        relay.Clause(relay.PatternConstructor(zero), zero()),
        relay.Clause(relay.PatternConstructor(succ, [relay.PatternVar(m)]), m),
    ]
    mod["main"] = relay.Function([n], relay.Match(n, clauses))
    typed = relay.transform.InferType()(mod)
    assert typed["main"].ret_type == nat()
    tvm.ir.assert_structural_equal(relay.parse(typed.astext()), typed)


def test_tags_tell_types_apart_and_number_constructors():
    _, _, zero, succ = nat_module()
    assert zero.tag & 0xFFFFFF == 0 and succ.tag & 0xFFFFFF == 1
    assert -(2**31) <= zero.tag < 2**31


def test_the_library_is_merged_but_not_printed():
    mod = tvm.IRModule()
    mod.import_from_std("prelude.rly")
    assert "map" in mod and mod.get_type("List")[1].name_hint == "Cons"
    mod["main"] = IDENTITY
    assert mod.astext().startswith("def @main")
    with pytest.raises(RelayError, match=r"no file `none.rly`; it has `prelude.rly`"):
        mod.import_from_std("none.rly")


def test_a_file_is_imported(tmp_path):
    path = tmp_path / "f.relay"
    path.write_text("def @f(%x: int32) { %x }")
    mod = tvm.IRModule({"g": IDENTITY})
    mod._import(str(path))
    assert {v.name for v in mod} == {"f", "g"}
    with pytest.raises(RelayError, match="cannot be read"):
        mod._import("/nowhere/f.relay")


def test_modules_are_merged():
    mod = tvm.IRModule({"f": IDENTITY})
    mod.update(tvm.IRModule({"g": IDENTITY}))
    mod.update({"h": IDENTITY})
    assert {v.name for v in mod} == {"f", "g", "h"}


def test_attributes_are_set_on_copies():
    mod = tvm.IRModule({"f": IDENTITY})
    marked = mod.with_attr("a", 1).with_attrs({"b": "t"})
    assert marked.get_attr("a") == 1 and marked.attrs["b"] == "t"
    assert mod.attrs is None and mod.get_attr("a") is None
    assert marked.without_attr("a").get_attr("a") is None
    assert unwrap(marked).attrs["b"] == "t"


def test_a_clone_is_changed_alone():
    mod = tvm.IRModule({"f": IDENTITY})
    copy = mod.clone()
    copy["g"] = IDENTITY
    assert "g" not in mod and copy.get_global_var("f") is mod.get_global_var("f")


def test_functions_are_renamed_where_they_are_used():
    g = relay.GlobalVar("g")
    mod = tvm.IRModule({g: IDENTITY, "main": relay.Function([X], g(g(X)))})
    renamed = mod.replace_global_vars({"g": "h"})
    assert renamed["main"].body.op.name == "h" and "g" not in renamed
    with pytest.raises(RelayError, match="two functions would be named `@main`"):
        mod.replace_global_vars({"g": "main"})
    with pytest.raises(RelayError, match="no function `@k`"):
        mod.replace_global_vars({"k": "l"})


def test_wrapping_and_unwrapping_keep_the_program():
    module = Module({"main": IDENTITY})
    assert unwrap(wrap(module)) is module is unwrap(module)
    assert unwrap(X)["main"].params == (X,)


def test_constants_that_passes_make_are_arrays_of_tvm():
    mod = tvm.IRModule.from_expr(relay.Function([], relay.const(1.0) + relay.const(2.0)))
    folded = relay.transform.FoldConstant()(mod)["main"].body
    assert folded.data.numpy() == 3 and folded.data.asnumpy().dtype == "float32"


def test_a_module_prints_as_text(capsys):
    mod = tvm.IRModule({"main": IDENTITY})
    mod.show()
    assert capsys.readouterr().out == f"{mod}\n" == f"{mod.script()}\n"


def test_texts_are_parsed_with_types_and_with_what_is_known():
    known = relay.parse("def @f(%x: int32) { %x + 1 }")
    mod = relay.parse("def @main(%x: int32) { @f(%x) }", init_module=known)
    assert mod["main"].ret_type == relay.scalar_type("int32") and "f" in mod
    assert relay.fromtext(mod.astext())["main"].checked_type is not None
    with pytest.raises(tvm.error.DiagnosticError, match=r"from_string:1:21"):
        relay.parse("def @main(%x: int32 { %x }")
    with pytest.raises(tvm.error.DiagnosticError, match=r"model.py:1:"):
        relay.parse("def @main() { %y }", source_name="model.py")


def test_an_expression_is_parsed_without_types():
    expr = relay.parse_expr("free_var %x: int32; add(%x, 1)")
    assert expr.op.name == "add" and expr.args[1].data.numpy() == 1


def test_a_table_of_constants_may_stand_beside_the_text():
    text = "def @main() { (meta[relay.Constant][1], meta[relay.Constant][0]) }"
    table = {"relay.Constant": [relay.const([1.0, 2.0]), relay.const([3, 4])]}
    first, second = relay.parse(text, init_meta_table=table)["main"].body.fields
    assert first.data.numpy().tolist() == [3, 4] and second.data.numpy().tolist() == [1, 2]
    with pytest.raises(RelayError, match="a list `relay.Constant`"):
        relay.parse(text, init_meta_table={"Span": []})


def test_a_name_that_is_not_there_is_a_value_error():
    mod = tvm.IRModule()
    for ask in (mod.get_global_var, mod.get_global_type_var, mod.get_type, mod.__getitem__):
        with pytest.raises(ValueError, match="the module has no"):
            ask("nope")
    with pytest.raises(ValueError, match="no constructor with the tag 7"):
        mod.get_constructor(7)


def test_a_size_that_is_a_variable_becomes_a_parameter_of_the_function():
    n = tvm.te.size_var("n")
    x = relay.var("x", shape=(n, 3))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.Function([x], x + x)))
    assert [str(p) for p in mod["main"].type_params] == ["n"]
    assert structural_equal(mod, relay.parse(mod.astext()))
    data = np.ones((2, 3), np.float32)
    for kind in ("debug", "vm"):
        run = relay.create_executor(kind, mod).evaluate()
        np.testing.assert_array_equal(run(data).numpy(), data * 2)


@pytest.mark.parametrize(
    "change",
    [
        relay.transform.ToANormalForm(),
        relay.transform.LambdaLift(),
        relay.transform.PartialEvaluate(),
        relay.transform.DeadCodeElimination(inline_once=True),
        relay.transform.FuseOps(3),
    ],
    ids=lambda change: change.info.name,
)
def test_what_a_pass_changes_in_the_library_is_in_the_text(change):
    text = "def @main(%l: List[int32]) { (@length(%l), @rev(@map(fn (%x) { %x + 1 }, %l))) }"
    mod = relay.transform.InferType()(change(relay.transform.InferType()(relay.parse(text))))
    again = relay.parse(mod.astext())
    assert structural_equal(mod, again)
    assert again.astext() == mod.astext()


def test_text_has_of_the_library_no_more_than_was_changed():
    mod = relay.parse("def @main(%l: List[int32]) { @length(%l) }")
    assert "def @length" not in relay.transform.InferType()(mod).astext()


def test_copies_and_pickles_of_modules_are_equal_and_their_own():
    """By the JSON text: with what the library gave, and operations of arrays."""
    text = "def @main(%x: int32) { @map(fn (%y: int32) { %y }, Cons(%x, Nil)) } "
    text += "def @more(%a: Array[int32]) { array.push(%a, 1) }"
    module = tvm.parse(text)
    for made in (module, relay.transform.InferType()(module)):
        for copied in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
            assert type(copied) is type(made) and copied is not made
            old, new = (getattr(m, "module", m) for m in (made, copied))
            assert structural_equal(old, new) and str(old) == str(new)
            assert new.library == old.library
    copied = copy.copy(made)
    assert copied["main"] is made["main"]
    copied["main"] = copied["more"]
    assert not structural_equal(copied["main"], made["main"])


def test_a_module_of_any_depth_is_copied():
    x = y = relay.var("x", shape=(2,))
    for _ in range(3_000):
        y = relay.exp(y)
    module = tvm.IRModule.from_expr(relay.Function([x], y))
    for copied in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert structural_equal(copied.module, module.module)

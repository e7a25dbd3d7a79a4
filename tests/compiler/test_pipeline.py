"""Running passes: what is required is provided, faults name the pass, dumps are as asked."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from programs_text import parsed, typed

from relayvm.base.diagnostics import InternalError, RelayError
from relayvm.compiler.passes import PASSES, pipeline_names, run_passes
from relayvm.compiler.pipeline import Pass, Property, run_pipeline
from relayvm.compiler.steps import read_step, split_steps
from relayvm.ir.expr import Var
from relayvm.ir.module import Module
from relayvm.ir.printer import print_module

SMALL = "def @main(%x: int32) { add(add(%x, 1), 1) }"


def test_types_are_inferred_for_a_pass_that_requires_them():
    assert run_passes(parsed(SMALL), ["to_anf"])["main"].checked_type is not None


def test_types_are_inferred_again_after_a_pass_that_breaks_them(capsys, monkeypatch):
    monkeypatch.setenv("RELAYVM_TIME", "1")
    text = """def @one(%x: int32) { %x }
    def @main(%x: int32) { add(@one(%x), add(1, 2)) }"""
    run_passes(parsed(text), ["inline", "fold_constants", "to_anf"])
    ran = re.findall(r"ms  (\w+)", capsys.readouterr().err)
    assert ran == [
        "infer_types",
        "inline",
        "infer_types",
        "fold_constants",
        "infer_types",
        "to_anf",
    ]


def test_a_pass_that_changes_nothing_breaks_nothing(capsys, monkeypatch):
    monkeypatch.setenv("RELAYVM_TIME", "1")
    run_passes(parsed("def @main(%x: int32) { exp(1f) }"), ["inline", "to_anf"])
    assert capsys.readouterr().err.count("infer_types") == 1


def test_an_unknown_pass_is_reported_with_those_that_are_known():
    with pytest.raises(RelayError) as reported:
        run_passes(parsed(SMALL), ["fuze"])
    assert reported.value.code == "unknown-pass"
    assert "fuse" in reported.value.message


def broken_table(run) -> dict[str, Pass]:
    return {"broken": Pass("broken", run, "fails")}


def test_a_pass_that_raises_is_an_internal_error_with_a_command_that_reproduces_it():
    def run(module: Module) -> Module:
        raise KeyError("lost")

    with pytest.raises(InternalError) as fault:
        run_pipeline(parsed(SMALL), broken_table(run), ["broken"])
    message = str(fault.value)
    assert message.startswith("pass `broken` failed: KeyError: 'lost'")
    command = re.search(r"relayvm opt --passes=broken (\S+)", message)
    path = Path(command.group(1))
    assert path.read_text(encoding="utf-8") == print_module(parsed(SMALL), library=True)
    path.unlink()


def test_an_error_about_the_program_from_a_pass_that_must_not_judge_it_is_internal():
    def run(module: Module) -> Module:
        return Module({"main": module["other"]})

    with pytest.raises(InternalError, match="has no function `@other`"):
        run_pipeline(parsed(SMALL), broken_table(run), ["broken"])


def test_verification_finds_an_ill_formed_result():
    def run(module: Module) -> Module:
        main = module["main"]
        return module.with_functions({"main": replace(main, body=Var("stray"))})

    with pytest.raises(InternalError, match="broken"):
        run_pipeline(parsed(SMALL), broken_table(run), ["broken"], verify=True)
    run_pipeline(parsed(SMALL), broken_table(run), ["broken"], verify=False)


def test_a_dump_shows_the_text_after_a_pass_and_notes_unchanged(capsys, monkeypatch):
    monkeypatch.setenv("RELAYVM_DUMP", "all")
    run_passes(typed(SMALL), ["to_anf", "eliminate_dead_code"])
    shown = capsys.readouterr().err
    assert "// after to_anf: \ndef @main" in shown
    assert "// after eliminate_dead_code: unchanged\n" in shown


def test_a_dump_of_one_pass_leaves_the_others_out(capsys, monkeypatch):
    monkeypatch.setenv("RELAYVM_DUMP", "to_anf")
    run_passes(parsed(SMALL), ["inline", "to_anf"])
    assert re.findall(r"// after (\w+)", capsys.readouterr().err) == ["to_anf"]


def test_artefacts_are_kept_by_stage(tmp_path, monkeypatch):
    monkeypatch.setenv("RELAYVM_KEEP", str(tmp_path))
    run_passes(parsed(SMALL), ["infer_types", "to_anf"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["01-infer_types.relay", "02-to_anf.relay"]


def test_level_0_runs_what_lowering_needs_and_no_more():
    names = {row.name for row in PASSES.values() if row.opt_level == 0}
    assert {"infer_types", "instantiate", "to_anf", "fuse", "compile_matches"} <= names
    assert not {"inline", "fold_constants", "constant_parameters"} & names


def test_every_required_property_is_ensured_by_a_pass():
    ensured = frozenset().union(*(row.ensures for row in PASSES.values()))
    required = frozenset().union(*(row.requires for row in PASSES.values()))
    assert required <= ensured
    assert ensured == set(Property)


def test_a_pass_run_on_its_own_infers_the_types_that_an_earlier_run_broke():
    text = """def @f(%x: int32) -> int32 {
      let %go = fn (%n: int32, %k: int32) -> int32 {
        if (equal(%n, 0)) { %k } else { %go(subtract(%n, 1), %k) } };
      %go(%x, 3) }"""
    broken = run_passes(parsed(text), ["constant_parameters"])
    assert broken["f"].checked_type is None
    run_passes(broken, ["eliminate_common_subexpressions"], verify=True)


# -- Options ------------------------------------------------------------------------------------


def test_options_stand_in_brackets_or_beside_the_name():
    text = "def @main(%x: float32) { exp(negative(tanh(%x))) }"
    by_text = run_passes(parsed(text), ["fuse_ops[max_depth=2]"])
    by_pair = run_passes(parsed(text), [("fuse_ops", {"max_depth": 2})])
    assert print_module(by_text) == print_module(by_pair)
    assert print_module(by_text) != print_module(run_passes(parsed(text), ["fuse_ops"]))


def test_a_list_of_steps_is_split_outside_of_brackets():
    assert split_steps(" a[x=1,y=2], b ,c[z=false]") == ["a[x=1,y=2]", "b", "c[z=false]"]
    assert read_step("a[x=1, y=none,z=w+v]") == ("a", {"x": 1, "y": None, "z": ("w", "v")})


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("fuse_ops[depth=2]", "no option `depth`; it has `fuse_opt_level=1`, `max_depth=256`"),
        ("to_anf[x=1]", "no option `x`; it has none"),
        ("fuse_ops[max_depth=many]", "is a whole number, not `many`"),
        ("eliminate_dead_code[inline_once=2]", "is true or false, not `2`"),
        ("fuse_ops[max_depth]", "has no value: write `max_depth=1`"),
        ("fuse_ops[max_depth=2", "lacks its closing `]`"),
    ],
)
def test_an_option_that_a_pass_does_not_have_is_reported(step, message):
    with pytest.raises(RelayError) as reported:
        run_passes(parsed(SMALL), [step])
    assert reported.value.code == "bad-option"
    assert message in reported.value.message


def test_passes_that_run_by_name_are_no_part_of_compilation():
    assert not {"to_cps", "fuse_ops", "defunctionalize"} & set(pipeline_names(4))
    assert set(pipeline_names(0)) < set(pipeline_names(4)) < set(PASSES)


def test_a_program_whose_entry_takes_functions_cannot_be_defunctionalized():
    text = "def @main(%f: fn (int32) -> int32) { %f(1) }"
    with pytest.raises(RelayError) as reported:
        run_passes(parsed(text), ["defunctionalize"])
    assert reported.value.code == "higher-order-entry"

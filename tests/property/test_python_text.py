"""The Python text of a program gives what the evaluator gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from meaning import same_value
from programs import programs

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.to_python import PythonProgram
from tests.compiler.programs_text import typed as typed_text


@given(programs())
def test_the_text_means_what_the_program_means(case):
    module, args = case
    typed = infer_types(module)
    expected = Evaluator(typed).call("main", args)
    assert same_value(PythonProgram(typed).call("main", args), expected)


@settings(max_examples=30)
@given(programs())
def test_the_text_of_a_lowered_program_means_it_too(case):
    module, args = case
    lowered = run_passes(infer_types(module), opt_level=2)
    expected = Evaluator(lowered).call("main", args)
    assert same_value(PythonProgram(lowered).call("main", args), expected)


def test_a_trap_has_the_code_of_the_evaluator():
    module = typed_text("def @main(%o: Option[int32]) -> int32 { match? (%o) { Some(%x) => %x } }")
    nothing = Evaluator(typed_text("def @main() -> Option[int32] { None }")).call("main")
    for run in (Evaluator(module).call, PythonProgram(module).call):
        with pytest.raises(Trap) as caught:
            run("main", [nothing])
        assert caught.value.code == "match-failed"


@pytest.mark.parametrize("name", ["partial_evaluate", "to_cps", "defunctionalize", "lambda_lift"])
@settings(max_examples=20)
@given(case=programs())
def test_the_text_of_a_transformed_program_means_it_too(name, case):
    module, args = case
    try:
        after = run_passes(infer_types(module), [name])
    except RelayError as refused:
        assert refused.code == "higher-order-entry"
        return
    expected = Evaluator(after).call("main", args)
    assert same_value(PythonProgram(after).call("main", args), expected)

"""Programs as Python text: the same values as the evaluator, bit for bit, and readable."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError, Trap
from relayvm.base.dtypes import FLOAT32
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.host.values import DataValue, Reference
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.passes import run_passes
from relayvm.compiler.to_python import PythonProgram, to_python
from relayvm.ir.build import let
from relayvm.ir.expr import Call, Constant, Function, Var
from relayvm.ir.module import Module
from relayvm.ir.types import TensorType, scalar_type
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, operator
from relayvm.ops.schema import Float
from tests.compiler.programs_text import parsed, typed


def ran(text: str, *args: object) -> object:
    """Return what the Python of a program gives, which is what the evaluator gives."""
    module = typed(text)
    result = PythonProgram(module).call("main", args)
    assert shown(result) == shown(Evaluator(module).call("main", args))
    return result


def shown(value: object) -> object:
    """Return a value as numbers in tuples and lists, data with the names of constructors."""
    if isinstance(value, np.ndarray):
        return (value.dtype.name, value.tolist())
    if isinstance(value, (tuple, list)):
        return type(value)(map(shown, value))
    if hasattr(value, "fields"):
        return (value.constructor, *map(shown, value.fields))
    return ("ref", shown(value.value))


def body(text: str, name: str = "main") -> str:
    """Return the Python of one function."""
    lines = to_python(parsed(text)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"def {name}("))
    rest = lines[start:]
    end = next((i for i, line in enumerate(rest) if not line.strip()), len(rest))
    return "\n".join(rest[:end])


def test_arithmetic_is_plain_numpy():
    text = """
    def @main(%x: Tensor[(2, 3), float32], %n: int32) {
      let %h = tanh(%x * 2f) + 1f;
      (sum(%h, axis=[1]), %n / 2, cast(%n, dtype="float32"))
    }
    """
    assert body(text) == (
        "def main(x, n):\n"
        "    h = np.tanh(x * np.float32(2)) + np.float32(1)\n"
        "    return (np.sum(h, axis=(1,), dtype=np.float32), divide(n, np.int32(2)), "
        "n.astype(np.float32))"
    )
    ran(text, np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), -7)


def test_matches_are_chains_of_tests():
    text = """
    type T { Leaf(int32), Node(T, T), Nothing }
    def @main(%t: T) -> int32 {
      match (%t) {
        Node(Leaf(%a), %b) => %a + @main(%b),
        Node(%a, %b) => @main(%a) * @main(%b),
        Leaf(%n) => %n,
        Nothing => 0,
      }
    }
    """
    assert body(text) == (
        "def main(t):\n"
        "    if isinstance(t, Node) and isinstance(t.fields[0], Leaf):\n"
        "        a = t.fields[0].fields[0]\n"
        "        b = t.fields[1]\n"
        "        return a + main(b)\n"
        "    if isinstance(t, Node):\n"
        "        a_1 = t.fields[0]\n"
        "        b_1 = t.fields[1]\n"
        "        return main(a_1) * main(b_1)\n"
        "    if isinstance(t, Leaf):\n"
        "        n = t.fields[0]\n"
        "        return n\n"
        "    return np.int32(0)"
    )


def test_a_partial_match_stops_the_run():
    text = """
    def @main(%n: int32) -> int32 {
      let %o = if (%n < 0) { None } else { Some(%n) };
      match? (%o) { Some(%x) => %x }
    }
    """
    assert ran(text, 5) == 5
    with pytest.raises(Trap, match="no clause"):
        PythonProgram(typed(text)).call("main", [-1])


def test_effects_keep_their_order_where_operands_need_statements():
    text = """
    def @main(%c: bool) {
      let %r = ref(1);
      let %next = fn () -> int32 {
        let %old = ref_read(%r);
        ref_write(%r, %old * 10);
        %old
      };
      (%next(), if (%c) { let %a = %next(); ref_write(%r, 7); %a } else { 0 },
       ref_read(%r), %next())
    }
    """
    assert [int(x) for x in ran(text, True)] == [1, 10, 7, 7]
    assert [int(x) for x in ran(text, False)] == [1, 0, 10, 10]


def test_what_is_read_after_a_write_is_what_was_written():
    text = """
    def @main(%n: int32) {
      let %r = ref(%n);
      let %next = fn () -> int32 { ref_write(%r, ref_read(%r) + 1); ref_read(%r) };
      (%next(), %next(), ref_read(%r))
    }
    """
    assert [int(x) for x in ran(text, 4)] == [5, 6, 6]


def test_a_shared_node_is_evaluated_once_before_the_branch_that_uses_it_first():
    text = """
    def @main(%c: bool) {
      let %r = ref(0);
      let %tick = fn (%k: int32) -> int32 { ref_write(%r, ref_read(%r) + 1); %k };
      %0 = %tick(3);
      let %x = if (%c) { %0 + %0 } else { 0 };
      (%x, %0, ref_read(%r))
    }
    """
    assert [int(x) for x in ran(text, False)] == [0, 3, 1]
    assert [int(x) for x in ran(text, True)] == [6, 3, 1]


def test_a_loop_without_end_is_a_loop():
    text = "def @main(%n: int32) -> int32 { @main(%n + 1) }"
    assert body(text) == (
        "def main(n):\n    while True:\n        n = n + np.int32(1)\n        continue"
    )


def test_closures_made_in_a_loop_keep_their_values():
    text = """
    def @make(%n: int32, %made: List[fn () -> int32]) -> List[fn () -> int32] {
      if (%n == 0) { %made } else { @make(%n - 1, Cons(fn () -> int32 { %n * %n }, %made)) }
    }
    def @main(%n: int32) -> List[int32] {
      @map(fn (%f: fn () -> int32) -> int32 { %f() }, @make(%n, Nil))
    }
    """
    result = ran(text, 3)
    assert shown(result)[1] == ("int32", 1)
    assert "return Again(" in body(text, "make")


def test_recursive_closures_made_in_a_loop_keep_theirs():
    text = """
    def @make(%n: int32, %sum: int32, %f: fn (int32) -> int32) -> int32 {
      if (%n == 0) { %f(4) + %sum } else {
        let %go = fn (%k: int32) -> int32 { if (%k == 0) { %n } else { %go(%k - 1) + %n } };
        @make(%n - 1, %sum + %f(2), %go)
      }
    }
    def @main(%n: int32) -> int32 { @make(%n, 0, fn (%k: int32) -> int32 { %k }) }
    """
    ran(text, 5)


def test_long_loops_and_deep_recursion_end():
    text = """
    def @count(%i: int32, %n: int32, %acc: int32) -> int32 {
      if (%i == %n) { %acc } else { @count(%i + 1, %n, %acc + %i % 7) }
    }
    def @down(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @down(%n - 1) } }
    def @main(%n: int32) -> (int32, int32) { (@count(0, %n, 0), @down(%n / 3)) }
    """
    text = text.replace("%i % 7", "mod(%i, 7)")
    ran(text, 6000)


def test_a_chain_of_4000_lets_is_a_list_of_statements():
    x = Var("x")
    values, last = [], x
    for _ in range(4_000):
        var = Var("y")
        values.append((var, Call(OPS["add"], (last, Constant(np.float32(1).reshape(()))))))
        last = var
    x = Var("x", scalar_type(FLOAT32))
    first = values[0][0]
    values[0] = (first, x)
    module = infer_types(Module({"main": Function((x,), let(values, last))}))
    assert PythonProgram(module).call("main", [np.float32(0)]) == 3_999


def test_a_deep_chain_of_calls_is_cut_into_statements():
    module = typed("def @main(%x: float32) { " + "negative(" * 3000 + "%x" + ")" * 3000 + " }")
    assert PythonProgram(module).call("main", [1.5]) == 1.5


def test_a_long_chain_of_else_ifs_stays_flat():
    arms = "".join(f"if (%n == {i}) {{ {i * i} }} else {{ " for i in range(400))
    ran(f"def @main(%n: int32) -> int32 {{ {arms} -1 {'}' * 400} }}", 333)


def test_a_long_chain_of_else_ifs_as_an_operand_does_not_nest():
    arms = "".join(f"if (%n == {i}) {{ {i * i} }} else {{ let %k = {i} * %n; " for i in range(300))
    text = f"def @main(%n: int32) {{ ({arms} %n {'}' * 300}, fn () -> int32 {{ %n }}).0 }}"
    ran(text, 299)
    ran(text, 301)


def test_deep_choices_in_a_loop_see_its_variables():
    inside = "%a"
    for i in range(12):
        inside = f"(if (%i == {i}) {{ let %k = %a + {i}; %k * %k }} else {{ {inside} + %i }})"
    text = f"""
    def @go(%i: int32, %a: int32, %f: fn () -> int32) -> int32 {{
      if (%i == 12) {{ %a + %f() }} else {{ @go(%i + 1, {inside}, fn () -> int32 {{ %i + %a }}) }}
    }}
    def @main(%n: int32) {{ @go(%n, 1, fn () -> int32 {{ 5 }}) }}
    """
    ran(text, 3)
    ran(text.replace(", fn () -> int32 { %i + %a }", ", %f"), 3)


# What stands around an expression `$`, with its number `#`.
NESTS = {
    "ifs at the end": "if (%n > #) { let %k# = %n - #; $ } else { %n * # }",
    "ifs in operands": "(%n + (if (%n > #) { let %k# = %n * #; $ + %k# } else { # }))",
    "ifs in conditions": "(if ($ > %n) { # } else { %n - # })",
    "matches at the end": "match (@cut(%n, #)) { Some(%k#) => $, None => %n * # }",
    "matches in operands": "(%n - (match (@cut(%n, #)) { None => #, Some(%k#) => $ * 3 + %k# }))",
    "functions": "{ let %f# = fn (%a#: int32) { $ + %a# }; %f#(#) }",
    "recursive functions": "{ let %f# = fn (%a#: int32) -> int32 { "
    "if (%a# > #) { $ + %a# } else { %f#(%a# + 1) } }; %f#(# - 2) }",
    "functions in branches": "if (%n > #) { let %f# = fn (%a#: int32) { $ + %a# }; %f#(#) } "
    "else { # }",
    "writes": "if (ref_read(%r) > #) { ref_write(%r, ref_read(%r) - 1); let %k# = $; "
    "ref_write(%r, ref_read(%r) + %k# * #); %k# } else { ref_read(%r) }",
}
CUT = "def @cut(%n: int32, %i: int32) -> Option[int32] { if (%n > %i) { Some(%n) } else { None } } "


def nested(around: str, depth: int, inside: str) -> str:
    """Return an expression of so many levels."""
    before, after = around.split("$")
    numbers = range(depth)
    start = "".join(before.replace("#", str(i)) for i in numbers)
    return start + inside + "".join(after.replace("#", str(i)) for i in reversed(numbers))


DEEPEST = [("ifs at the end", 1_000), ("matches in operands", 1_000), ("ifs in conditions", 1_000)]


@pytest.mark.parametrize(
    ("around", "depth"),
    [*((n, 150) for n in NESTS), *(pytest.param(*d, marks=pytest.mark.slow) for d in DEEPEST)],
)
def test_what_nests_deeper_than_python_can_is_cut_into_functions(around, depth):
    inside = nested(NESTS[around], depth, "%n + 7")
    start = f"{CUT}def @main(%n: int32) {{ let %r = ref(%n); "
    at_end = f"{start}{inside} }}"
    module = typed(
        at_end if "end" in around else f"{start}let %v = {inside}; (%v, ref_read(%r)) }}"
    )
    program, evaluator = PythonProgram(module), Evaluator(module)
    for number in (depth + 9, depth - 30, 3):
        assert shown(program.call("main", [number])) == shown(evaluator.call("main", [number]))


def test_sizes_and_arrays_reach_the_deepest_level():
    around = "if (sum(%x) > #f) { let %k# = zeros(shape=[n, #], dtype='float32'); $ } else { %x }"
    inside = "fn (%y: Tensor[(n), float32]) { broadcast_to(%y, shape=[2, n]) }(%x) + sum(%k7)"
    inside = nested(around.replace("'", '"'), 200, f"sum({inside}, axis=[0])")
    text = f"def @main[n](%x: Tensor[(n), float32]) -> Tensor[(n), float32] {{ {inside} }}"
    ran(text, np.array([150, 120], np.float32))


@pytest.mark.parametrize("last", ["%f", "fn () -> int32 { %i + %a }"])
def test_a_loop_whose_turns_end_deep_inside_takes_no_stack(last):
    inside = nested("if (%a > -#) { let %k# = %a + #; $ } else { # }", 150, "$")
    again = f"@go(%i + 1, %k1 - %k0 + {'%f()' if last == '%f' else '1'}, {last})"
    text = f"""
    def @go(%i: int32, %a: int32, %f: fn () -> int32) -> int32 {{
      if (%i == 3000) {{ %a + %f() }} else {{ {inside.replace("$", again)} }}
    }}
    def @main(%n: int32) {{ @go(%n, 1, fn () -> int32 {{ 5 }}) }}
    """
    ran(text, 2_800)
    calls = re.findall(r".*\bgo\(.*", to_python(parsed(text)))
    assert [line.split()[0] for line in calls] == ["def", "return"]  # The loop, and `@main`.


def test_sizes_are_read_from_arguments_and_checked():
    text = """
    def @main[n](%x: Tensor[(n, 2), float32], %y: Tensor[(?), float32]) {
      let %z: Tensor[(n), float32] = %y;
      (broadcast_to(%z, shape=[3, n]), zeros(shape=[n, n*2], dtype="int32"))
    }
    """
    ran(text, np.ones((3, 2), np.float32), np.ones(3, np.float32))
    with pytest.raises(Trap, match="declared"):
        PythonProgram(typed(text)).call("main", [np.ones((3, 2), np.float32), np.ones(4, "f4")])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("sum(%x + %y)", "run-time-shape"),
        ('gather(%x, full(7, shape=[1], dtype="int32"), axis=0)', "index-out-of-range"),
        ("@endless(sum(%x)) + 1f", "out-of-depth"),
    ],
)
def test_what_stops_a_run_is_a_trap(body, code):
    text = f"""
    def @endless(%x: float32) -> float32 {{ 1f + @endless(%x) }}
    def @main(%x: Tensor[(?), float32], %y: Tensor[(?), float32]) {{ {body} }}
    """
    with pytest.raises(Trap) as caught:
        PythonProgram(typed(text)).call("main", [np.ones(2, "f4"), np.ones(3, "f4")])
    assert caught.value.code == code


def test_arrays_and_references_of_the_host_work():
    text = """
    def @main(%a: Array[int32], %r: ref(int32)) {
      let %b = array.push(array.set(%a, 0, 9), array.length(%a));
      ref_write(%r, array.get(%b, 0));
      (%a, %b, %r)
    }
    """
    ran(text, [1, 2], 5)
    with pytest.raises(Trap, match="index 0 of an array of 0"):
        PythonProgram(typed(text)).call("main", [[], 1])


def test_functions_are_values():
    text = """
    def @twice[A](%f: fn (A) -> A, %x: A) -> A { %f(%f(%x)) }
    def @inc(%x: int32) -> int32 { %x + 1 }
    def @main(%x: int32) {
      let %some = @map(Some, Cons(%x, Nil));
      let %f = if (%x < 3) { @inc } else { fn (%y: int32) -> int32 { %y * %y } };
      (@twice(@inc, %x), @twice(%f, %x), %some, @compose(@inc, %f)(%x))
    }
    """
    ran(text, 2)
    ran(text, 3)


def test_a_result_that_is_a_function_can_be_called():
    module = typed("def @main(%x: int32) { fn (%y: int32) -> int32 { %x - %y } }")
    assert PythonProgram(module).call("main", [7])(np.int32(3)) == 4


def test_names_of_python_are_no_obstacle():
    text = """
    type class { None(int32), np }
    def @len(%def: int32) -> class { None(%def) }
    def @main(%lambda: int32, %list: int32) {
      match (@len(%lambda + %list)) { None(%if) => (%if, np), np => (0, np) }
    }
    """
    ran(text, 2, 3)


@pytest.mark.parametrize("bits", ["0.1f", "-0f", "1e-45f", "3.4028235e38f", "nanf", "-inff"])
def test_floats_keep_their_bits(bits):
    module = typed(f'def @main() {{ ({bits}, cast({bits}, dtype="float64"), 0.1f16, 0.1f64) }}')
    mine, theirs = PythonProgram(module).call("main"), Evaluator(module).call("main")
    assert [x.tobytes() for x in mine] == [x.tobytes() for x in theirs]


def test_constants_keep_their_bits():
    rng = np.random.default_rng(3)
    for dtype in ("float32", "float16", "int8", "bool", "uint64"):
        data = (rng.standard_normal((5, 7)) * 50).astype(dtype)
        module = infer_types(Module({"main": Function((), Constant(data))}))
        result = PythonProgram(module).call("main")
        assert (result.dtype, result.tobytes()) == (data.dtype, data.tobytes())


def test_programs_after_passes_are_programs():
    text = """
    def @main(%x: Tensor[(4), float32], %n: int32) {
      let %go = fn (%i: int32, %a: Tensor[(4), float32]) -> Tensor[(4), float32] {
        if (%i == 0) { %a } else { %go(%i - 1, tanh(%a + %x) * 2f) }
      };
      %go(%n, exp(%x))
    }
    """
    args = [np.linspace(0, 1, 4, dtype=np.float32), 3]
    wanted = shown(PythonProgram(typed(text)).call("main", args))
    for passes in (["to_anf", "fuse"], ["to_cps"], ["defunctionalize"], ["lift_closures"]):
        module = run_passes(typed(text), passes)
        assert shown(PythonProgram(module).call("main", args)) == wanted, passes


def test_the_text_runs_with_numpy_alone(tmp_path: Path):
    text = "def @main(%x: float32) -> List[float32] { Cons(sigmoid(%x) / 3f, Cons(erf(%x), Nil)) }"
    lines = "\nr = main(np.float32(1))\nprint(float(r.fields[0]))\n"
    lines += "import sys\nassert 'relayvm' not in sys.modules\n"
    file = tmp_path / "program.py"
    file.write_text(to_python(parsed(text)) + lines, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-I", str(file)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == float(ran(text, 1.0).fields[0])


@operator("own.double", fusion=Fusion.OPAQUE, no_gradient="a test")
def double(x: Float) -> TensorType:
    """Twice."""
    return TensorType(x.shape, x.dtype)


@double.numpy
def _(x: np.ndarray) -> np.ndarray:
    return x + x


def test_custom_operators_are_called_by_name():
    x = Var("x", scalar_type(FLOAT32))
    module = infer_types(Module({"main": Function((x,), double(x))}))
    assert PythonProgram(module).call("main", [2.0]) == 4


def test_what_the_host_sees_through_references_is_new():
    module = typed("def @main(%r: ref(Option[int32])) { ref_write(%r, Some(3)) }")
    held = Reference(DataValue("None", "Option", 1, ()))
    PythonProgram(module).call("main", [held])
    assert shown(held) == ("ref", ("Some", ("int32", 3)))


def test_the_text_finds_custom_operators_where_they_are_defined():
    x = Var("x", scalar_type(FLOAT32))
    text = to_python(Module({"main": Function((x,), double(x))}))
    names: dict[str, Any] = {}
    with np.errstate():
        exec(text, names)
    assert names["main"](np.float32(2)) == 4


def test_a_custom_operator_that_no_text_could_import_is_named():
    @operator("own.hidden", fusion=Fusion.OPAQUE, no_gradient="a test")
    def hidden(x: Float) -> TensorType:
        """Itself."""
        return x

    @hidden.numpy
    def _(x: np.ndarray) -> np.ndarray:
        return x

    x = Var("x", scalar_type(FLOAT32))
    module = Module({"main": Function((x,), hidden(x))})
    with pytest.raises(RelayError, match="`own.hidden` cannot be imported by a Python text"):
        to_python(module)
    assert PythonProgram(module).call("main", [2.0]) == 2

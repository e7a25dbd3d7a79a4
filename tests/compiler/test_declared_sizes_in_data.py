"""Sizes that entries declare inside of data hold also where the program has the data at others."""

from __future__ import annotations

import numpy as np
import pytest
from programs_text import parsed, typed

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator

TWO, THREE = np.ones(2, np.float32), np.ones(3, np.float32)
T2, T3 = "Tensor[(2), float32]", "Tensor[(3), float32]"
OTHER = f"""
type Both[A, B] {{ Both(A, B), Neither }}
type Tree[A] {{ Leaf, Node(A, Tree[A], Tree[A]) }}

def @other(
  %l: List[{T2}], %m: List[List[{T2}]], %t: Tree[{T2}], %b: Both[{T2}, {T2}], %o: Option[{T2}]
) -> int32 {{ 1 }}
"""
# A type that has `Tensor[(3), float32]` inside, a value of it, and one with another size.
TYPES = {
    "a list": (f"List[{T3}]", [THREE], [THREE, TWO]),
    "a list of lists": (f"List[List[{T3}]]", [[], [THREE]], [[THREE], [TWO]]),
    "a tuple": (f"(int32, List[{T3}])", (1, [THREE]), (1, [TWO])),
    "a reference": (f"ref(List[{T3}])", [THREE], [TWO]),
    "an array": (f"Array[List[{T3}]]", [[THREE]], [[TWO]]),
    "a list of pairs": (f"List[({T3}, {T2})]", [(THREE, TWO)], [(TWO, TWO)]),
    "a list of two sizes": (f"(List[{T3}], List[{T2}])", ([THREE], [TWO]), ([THREE], [THREE])),
}


def machines(text, level=None):
    for own in (0, 3) if level is None else (level,):
        exe = relayvm.compile(parsed(text), opt_level=own)
        for executable in (exe, relayvm.load(exe.to_bytes())):
            for engine in ("interpreter", "jit"):
                yield relayvm.VirtualMachine(executable, engine=engine)


def refused(run, *args):
    with pytest.raises(RelayError) as caught:
        run(*args)
    return caught.value.diagnostics[0]


@pytest.mark.parametrize("name", TYPES)
def test_arguments_have_the_sizes_that_are_declared(name):
    kind, fits, differs = TYPES[name]
    text = f"{OTHER} def @main(%x: {kind}) -> int32 {{ 7 }}"
    told = refused(Evaluator(typed(text)).call, "main", [differs])
    assert told.code == "wrong-argument"
    for vm in machines(text):
        assert vm.run(fits) == 7
        assert refused(vm.run, differs).message == told.message


def test_each_entry_has_its_own_sizes():
    text = OTHER + "".join(
        f"def @f{name}(%x: List[Tensor[({n}), float32]]) -> List[Tensor[({n}), float32]] {{ %x }}"
        for name, n in (("3", 3), ("4", 4), ("_any", "?"))
    )
    for vm in machines(text):
        three, four = vm.invoke("f3", [THREE]), vm.invoke("f4", [np.ones(4, np.float32)])
        assert (three.type_name, four.type_name) == (f"List[{T3}]", "List[Tensor[(4), float32]]")
        assert vm.invoke("f_any", three) == three
        assert vm.invoke("f3", vm.invoke("f_any", three)) == three
        assert refused(vm.invoke, "f4", three).code == "wrong-argument"
        assert refused(vm.invoke, "f3", vm.invoke("f_any", four)).code == "wrong-argument"


def test_several_parameters_of_a_data_type_have_their_own_sizes():
    text = f"{OTHER} def @main(%x: Both[{T3}, {T2}]) -> Both[{T2}, {T3}] {{ Neither }}"
    for vm in machines(text):
        both = vm.executable.adt(f"Both[{T3}, {T2}]").Both
        assert vm.run(both(THREE, TWO)).type_name == f"Both[{T2}, {T3}]"
        assert refused(both, TWO, TWO).code == "wrong-argument"
        assert refused(both, THREE, THREE).code == "wrong-argument"


def test_recursive_types_have_their_sizes_in_every_level():
    text = f"{OTHER} def @main(%x: Tree[{T3}]) -> int32 {{ 7 }}"
    for vm in machines(text):
        three = vm.executable.adt(f"Tree[{T3}]")
        two = vm.executable.adt(f"Tree[{T2}]")
        leaf = three.Leaf()
        assert vm.run(three.Node(THREE, three.Node(THREE, leaf, leaf), leaf)) == 7
        assert refused(three.Node, THREE, three.Node, leaf).code == "wrong-argument"
        assert refused(vm.run, two.Node(TWO, two.Leaf(), two.Leaf())).code == "wrong-argument"


def test_results_of_functions_in_data_have_the_sizes_that_are_declared():
    text = f"""{OTHER}
    def @main(%x: {T3}) -> fn (List[{T3}]) -> List[{T3}] {{
      fn (%l: List[{T3}]) {{ Cons(%x, %l) }}
    }}"""
    for vm in machines(text):
        push = vm.run(THREE)
        assert push.type.text == f"fn (List[{T3}]) -> List[{T3}]"
        assert len(push([THREE]).fields) == 2
        assert refused(push, [TWO]).code == "wrong-argument"


CONSTRUCTED = {
    "a number": f"""def @main(%x: Tensor[(?), float32], %y: {T3}) -> List[{T3}] {{
      Cons[{T3}](%x, Nil) }}""",
    "a symbol": """def @main[n](%x: Tensor[(?), float32], %y: Tensor[(n), float32])
      -> List[Tensor[(n), float32]] { Cons[Tensor[(n), float32]](%x, Nil) }""",
    "in a tuple": f"""def @main(%x: Tensor[(?), float32], %y: {T3}) -> List[({T3}, int32)] {{
      Cons[({T3}, int32)]((%x, 1), Nil) }}""",
    "beside a value that is computed": f"""
      def @main(%x: Tensor[(?), float32], %y: {T3}) -> Both[{T3}, {T3}] {{
        Both[{T3}, {T3}](%x + %x, %y + %y) }}""",
    "shared": f"""def @main(%x: Tensor[(?), float32], %y: {T3}) -> (List[{T3}], List[{T3}]) {{
      %0 = Cons[{T3}](%x, Nil); (%0, %0) }}""",
}


@pytest.mark.parametrize("name", CONSTRUCTED)
def test_constructors_compare_what_they_take_with_the_sizes_of_their_calls(name):
    text = OTHER + CONSTRUCTED[name]
    assert refused(Evaluator(typed(text)).call, "main", [TWO, THREE]).code == "run-time-shape"
    for vm in machines(text):
        vm.run(THREE, THREE)
        assert refused(vm.run, TWO, THREE).code == "run-time-shape"


def test_uniform_layouts_keep_the_sizes_that_are_declared(monkeypatch):
    monkeypatch.setenv("RELAYVM_UNIFORM", "1")
    text = f"{OTHER} def @main(%x: List[{T3}], %y: List[{T2}]) -> List[{T3}] {{ %x }}"
    for vm in machines(text, level=3):
        assert vm.run([THREE], [TWO]).type_name == f"List[{T3}]"
        assert refused(vm.run, [TWO], [TWO]).code == "wrong-argument"

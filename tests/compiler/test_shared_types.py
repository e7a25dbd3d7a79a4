"""Types that share their parts cost what they are in memory, or are refused."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.base.dtypes import INT32
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.inference import unify
from relayvm.ir.expr import Constructor
from relayvm.ir.module import Module, TypeData
from relayvm.ir.types import GlobalTypeVar, TensorType, TupleType, Type


def chain(name: str, levels: int, leaf: str) -> str:
    """Return the text of types, each a pair of the one before."""
    first = f"type {name}0 = ({leaf}, {leaf});\n"
    return first + "".join(
        f"type {name}{i} = ({name}{i - 1}, {name}{i - 1});\n" for i in range(1, levels)
    )


def generic(levels: int) -> str:
    pairs = ", ".join(f"T{i} = (T{i - 1}, T{i - 1})" for i in range(1, levels))
    return f"A, T0 = (A, A), {pairs}"


PROGRAMS = {
    "polymorphic": lambda n, leaf: (
        f"{chain('I', n, leaf)}def @f[{generic(n)}](%x: T{n - 1}) -> T{n - 1} {{ %x }} "
        f"def @main(%x: I{n - 1}) {{ let %y = @f(%x); 1 }}"
    ),
    "equal chains": lambda n, leaf: (
        f"{chain('I', n, leaf)}{chain('J', n, leaf)}def @f(%x: J{n - 1}) -> J{n - 1} {{ %x }} "
        f"def @main(%x: I{n - 1}) {{ let %y = @f(%x); 1 }}"
    ),
    "pairs of pairs": lambda n, leaf: (
        f"def @pair[A](%x: A) -> (A, A) {{ (%x, %x) }} def @main(%x0: {leaf}) {{ "
        + "".join(f"let %x{i + 1} = @pair(%x{i}); " for i in range(n))
        + "1 }"
    ),
    "branches": lambda n, leaf: (
        f"def @main(%c: bool, %x0: {leaf}, %y0: {leaf}) {{ "
        + "".join(
            f"let %x{i + 1} = (%x{i}, %x{i}); let %y{i + 1} = (%y{i}, %y{i}); " for i in range(n)
        )
        + f"let %z = if (%c) {{ %x{n} }} else {{ %y{n} }}; 1 }}"
    ),
}


@pytest.mark.parametrize("leaf", ["int32", "Tensor[(3), float32]"])
@pytest.mark.parametrize("name", ["polymorphic", "equal chains", "branches"])
def test_types_of_shared_parts_are_inferred_part_by_part(name: str, leaf: str) -> None:
    infer_types(relayvm.parse(PROGRAMS[name](60, leaf if name != "branches" else "int32")))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_types_that_are_far_too_large_are_refused(name: str) -> None:
    with pytest.raises(RelayError) as caught:
        relayvm.compile(relayvm.parse(PROGRAMS[name](60, "int32")))
    assert {d.code for d in caught.value.diagnostics} == {"too-large-type"}


def test_types_with_sizes_that_double_at_each_call_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(unify, "MOST_PARTS", 1 << 10)
    with pytest.raises(RelayError, match="too-large-type"):
        infer_types(relayvm.parse(PROGRAMS["pairs of pairs"](60, "Tensor[(3), float32]")))


def test_fields_of_constructors_are_no_larger() -> None:
    field: Type = TensorType((), INT32)
    for _ in range(60):
        field = TupleType((field, field))
    header = GlobalTypeVar("Huge")
    data = TypeData(header, (), (Constructor("Make", (field,), header, 0),))
    main = relayvm.parse("def @main() { 1 }").functions
    with pytest.raises(RelayError, match="too-large-type"):
        infer_types(Module(types={"Huge": data}, functions=main))


def test_a_result_that_is_too_large_for_the_host_is_refused() -> None:
    lets = " ".join(f"let %x{i + 1} = (%x{i}, %x{i});" for i in range(17))
    with pytest.raises(RelayError, match="too-large-type"):
        relayvm.compile(relayvm.parse(f"def @main(%x0: int32) {{ {lets} %x17 }}"))
    used = f"def @main(%x0: int32) {{ {lets} %x17{'.1' * 17} }}"
    exe = relayvm.compile(relayvm.parse(used), opt_level=0)
    assert relayvm.VirtualMachine(exe).run(np.int32(5)) == 5

"""Random programs that set parts of tensors which are held once or by several equal the evaluator
on both engines; what a program still holds is as it was.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types

KIND = "Tensor[(4, 3), float32]"
PARTS = {
    "set": "strided_set({x}, {v}, %i, %j, %s)",
    "rows": "scatter_nd({x}, reshape(%i, newshape=[1, 1]), strided_slice({v}, begin=[0], end=[1]))",
    "add": 'scatter_nd({x}, %at, {v}, mode="add")',
    "elements": "scatter_elements({x}, %at2, {v}, axis=1)",
}
HEAD = f"""
def @turn(%x: {KIND}, %v: {KIND}) -> {KIND} {{ if (sum(%x) < 1f) {{ %x + %v }} else {{ %v }} }}
def @again(%n: int32, %x: {KIND}, %v: {KIND}, %i: Tensor[(1), int64]) -> {KIND} {{
  if (%n < 1) {{ %x }} else {{
    @again(%n - 1, scatter_nd(%x, reshape(%i, newshape=[1, 1]),
                              strided_slice(%v, begin=[0], end=[1]), mode="add"), %v, %i)
  }}
}}
"""
PARAMS = f"%x: {KIND}, %i: Tensor[(1), int64], %j: Tensor[(1), int64], %s: Tensor[(1), int64]"
PARAMS += ", %at: Tensor[(1, 4), int64], %at2: Tensor[(4, 3), int64]"


def program(seed: int) -> str:
    """Return a program of a few steps whose result holds some of what they made."""
    choice = random.Random(seed)
    names, lines = ["%x", "%a"], ["let %a = exp(%x);", "let %r = ref(%a);"]

    def some() -> str:
        return choice.choice(names[-2:] if choice.random() < 0.7 else names)

    for number in range(choice.randrange(3, 9)):
        new, x, v = f"%b{number}", some(), some()
        part = choice.choice(list(PARTS.values())).format(x=x, v=v)
        match choice.randrange(7):
            case 0:
                text = f"{x} * {v} + 0.5f"
            case 1:
                text = f"@turn({part}, {v})"
            case 2:
                text = f"@again({choice.randrange(3)}, {x}, {v}, %i)"
            case 3:
                taken = choice.choice(list(PARTS.values())).format(x="ref_read(%r)", v=v)
                lines.append(f"ref_write(%r, {taken});")
                text = "ref_read(%r)" if choice.random() < 0.5 else part
            case 4:
                text = f"if (sum({x}) < 3f) {{ {part} }} else {{ {v} }}"
            case _:
                text = part
        lines.append(f"let {new} = {text};")
        names.append(new)
    held = [n for n in names[1:-1] if choice.random() < 0.3]
    result = ", ".join([names[-1], "ref_read(%r)", *held])
    return f"{HEAD}def @main({PARAMS}) {{\n  " + "\n  ".join(lines) + f"\n  ({result})\n}}\n"


def arguments(seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((4, 3)).astype(np.float32)
    begin, stride = rng.integers(0, 4), rng.choice([1, 2, -1])
    end = rng.integers(0, 5)
    at = rng.integers(0, 4, (1, 4))
    return [
        x,
        *(np.array([n], np.int64) for n in (begin, end, stride)),
        at,
        rng.integers(-3, 3, (4, 3)),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_programs_that_set_parts_give_what_the_evaluator_gives(first: int) -> None:
    for seed in range(first, first + 10):
        text, args = program(seed), arguments(seed)
        module = infer_types(relayvm.parse(text))
        wanted = Evaluator(module).call("main", args)
        exe = relayvm.compile(module, opt_level=(0, 3)[seed % 2], entries=["main"])
        bits = []
        for engine in ("interpreter", "jit"):
            vm = relayvm.VirtualMachine(exe, engine=engine)
            for _ in range(2):
                result = vm.run(*args)
                for got, expected in zip(result, wanted, strict=True):
                    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6, err_msg=text)
                bits.append(tuple(np.asarray(part).tobytes() for part in result))
        assert len(set(bits)) == 1, text

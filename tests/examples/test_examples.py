"""Each program under `examples/` gives what it should in every engine."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import relayvm
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python import PythonProgram
from relayvm.ir.equal import structural_equal
from tests.examples import language, models
from tests.examples.programs import Example, assert_close, plain

FOLDER = Path(relayvm.__file__).parents[1] / "examples"
EXAMPLES = (*language.EXAMPLES, *models.EXAMPLES)
CATEGORIES = (
    "lists_and_trees",
    "closures",
    "references",
    "tensor_arrays",
    "while_loop",
    "mutual_recursion",
    "polymorphic_data",
    "dynamic_shapes",
    "option_and_either",
    "seq2seq",
    "beam_search",
    "numeric",
)


def names(examples: tuple[Example, ...]) -> list[str]:
    seen: Counter[str] = Counter()
    result = []
    for example in examples:
        seen[example.name] += 1
        result.append(f"{example.name}-{seen[example.name]}")
    return result


def same_bits(a: Any, b: Any) -> bool:
    """Return True if values have the same bits, NaNs too: no example makes one."""
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(map(same_bits, a, b))
    return a == b if isinstance(a, str) else a.tobytes() == b.tobytes()


@pytest.mark.parametrize("example", EXAMPLES, ids=names(EXAMPLES))
def test_every_engine_gives_the_result(example):
    module = infer_types(relayvm.parse(FOLDER / f"{example.name}.relay"))
    meant = plain(Evaluator(module).call("main", example.args))
    assert_close(meant, example.wanted(), example.rtol)
    assert same_bits(plain(PythonProgram(module).call("main", example.args)), meant)
    for level in (0, 3):
        exe = relayvm.compile(module, opt_level=level)
        given = plain(relayvm.VirtualMachine(exe).run(*example.args))
        assert_close(given, meant, example.rtol, f"level {level}")
        again = relayvm.VirtualMachine(relayvm.load(exe.to_bytes(), native=True))
        assert same_bits(plain(again.run(*example.args)), given)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("while_loop/*.py")), ids=lambda p: p.stem)
def test_the_text_of_a_loop_is_that_of_its_python(path):
    built = runpy.run_path(str(path), run_name="example")["program"]()
    assert structural_equal(relayvm.parse(path.with_suffix(".relay")), built.module)


def test_every_category_has_five_programs_and_every_program_is_run():
    found = {f"{p.parent.name}/{p.stem}" for c in CATEGORIES for p in (FOLDER / c).glob("*.relay")}
    assert found == {example.name for example in EXAMPLES}
    counts = Counter(name.split("/")[0] for name in found)
    assert {c: counts[c] for c in CATEGORIES} == dict.fromkeys(CATEGORIES, 5)


def test_most_results_are_computed_another_way():
    computed = {example.name for example in EXAMPLES if callable(example.expected)}
    assert len(computed) >= len({example.name for example in EXAMPLES}) / 2


def test_the_index_names_every_program():
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert [e.name for e in EXAMPLES if f"({e.name}." not in index] == []

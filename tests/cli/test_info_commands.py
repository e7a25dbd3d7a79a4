"""Commands about RelayVM itself, `bench`, and what holds for every command."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import relayvm
from relayvm.base.cache import kernel_cache
from relayvm.base.error_codes import ERROR_CODES
from relayvm.base.settings import SETTINGS
from relayvm.cli.bench import kernels, operators
from relayvm.cli.bench.rows.table import PARTS
from relayvm.cli.main import EXIT_INTERNAL_ERROR, EXIT_INTERRUPTED, make_parser
from relayvm.compiler.infer_types import infer_types

NAMES = "compile opt run verify inspect disassemble assemble bench explain settings info cache"
TREES = "(3 (2 a) (3 (2 good) (2 film)))\n\n(1 (2 dull) (2 story))\n(2 short)\n"


def test_version_is_that_of_the_package(command) -> None:
    assert command("--version").out == f"relayvm {relayvm.__version__}\n"


@pytest.mark.parametrize("name", NAMES.split())
def test_every_command_has_help(command, name) -> None:
    done = command(name, "--help")
    assert done.code == 0 and done.out.startswith(f"usage: relayvm {name}")
    assert name in command("--help").out.split()


def test_every_command_and_argument_says_what_it_is() -> None:
    parsers = [("relayvm", make_parser())]
    for name, parser in parsers:
        assert parser.description and parser.description.endswith("."), name
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.items()
            else:
                assert action.help, f"{name} {action.dest}"
                default = f"(default: {action.default})"
                plain = action.default in (None, False, "", [], argparse.SUPPRESS)
                assert plain or default in action.help, f"{name} {action.dest}: {default}"
    assert {name for name, _ in parsers} >= set(NAMES.split())


def test_explain_prints_what_a_code_means(command) -> None:
    for spelling in ("shape-mismatch", "[shape-mismatch]", "error[shape-mismatch]"):
        out = command("explain", spelling).out
        assert out == f"shape-mismatch\n\n{ERROR_CODES['shape-mismatch']}\n"


def test_explain_lists_all_codes(command) -> None:
    lines = command("explain").out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(ERROR_CODES)


def test_explain_suggests_a_code_that_is_near(command) -> None:
    done = command("explain", "shape-mismach")
    assert done.code == 1 and "did you mean `shape-mismatch`?" in done.err


def test_settings_lists_every_switch(command, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_DUMP", "fuse,inline")
    out = command("settings").out
    assert all(f"{name} = " in out for name in SETTINGS)
    assert "RELAYVM_DUMP = fuse, inline" in out


def test_a_setting_that_cannot_be_read_is_named(command, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_TIME", "maybe")
    done = command("settings")
    assert done.code == 1 and "`RELAYVM_TIME` is `maybe`" in done.err


def test_info_shows_versions_and_the_host(command) -> None:
    out = command("info").out
    assert f"relayvm   {relayvm.__version__}" in out and "numpy" in out
    assert "host      " in out and "code for  " in out


def test_cache_is_shown_and_cleared(command, model, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path / "cache"))
    assert ": 0 kernels" in command("cache").out
    assert command("compile", model).code == 0
    assert ": 0 kernels" not in command("cache").out
    assert command("cache", "--clear").code == 0
    assert ": 0 kernels" in command("cache").out


def test_cache_says_what_it_cannot_clear(command, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    kernel_cache().put_bytes("ab" * 32, b"code")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    refused = command("cache", "--clear")
    assert refused.code == 1
    assert f"`{tmp_path / 'kernels'}` cannot be cleared" in refused.err


def test_cache_says_why_it_is_not_used(command, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", str(tmp_path))
    (tmp_path / "kernels").write_bytes(b"")
    for words in (["cache"], ["cache", "--clear"]):
        assert "not used: `" in command(*words).out


def test_cache_says_that_it_is_turned_off(command, monkeypatch) -> None:
    monkeypatch.setenv("RELAYVM_CACHE", "")
    assert "turned off" in command("cache").out


@pytest.mark.slow
def test_bench_measures_any_file_of_trees(command, tmp_path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(TREES)
    done = command("bench", "treelstm", "--trees", path, "--repeat", 1)
    assert done.code == 0
    assert "3 trees, 6 tokens" in done.out
    assert all(row in done.out for row in ("relayvm", "numpy", "read sweep"))
    assert (
        "1 trees, 3 tokens"
        in command("bench", "treelstm", "--trees", path, "--repeat", 1, "--limit", 1).out
    )


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("(2 (2 a) (2 b)\n", "1:1", "not closed"),
        ("(2 a)\n(2 b))\n", "2:6", "closes no node"),
        ("(3 (2 a) (2 b) (2 c))\n", "1:1", "0 tokens and 3 nodes"),
        ("(2 a) b\n", "1:7", "outside of a tree"),
        ("((2 a) (2 b))\n", "1:2", "a label is expected"),
        ("(2)\n", "1:1", "0 tokens and 0 nodes"),
        ("(2 a b)\n", "1:1", "2 tokens and 0 nodes"),
        ("(2 a (2 b))\n", "1:1", "1 tokens and 1 nodes"),
        ("\n", None, "holds no tree"),
    ],
)
def test_trees_that_cannot_be_read_are_shown(command, tmp_path, text, place, message) -> None:
    path = tmp_path / "trees.txt"
    path.write_text(text)
    done = command("bench", "treelstm", "--trees", path)
    assert done.code == 1 and done.err.startswith("error[bad-tree]: "), done.err
    assert message in done.err
    assert place is None or f"--> {path}:{place}" in done.err


def test_a_fault_of_ours_is_one_line_and_a_file(command, monkeypatch) -> None:
    monkeypatch.setattr("relayvm.cli.info_commands.SETTINGS", None)
    done = command("settings")
    assert done.code == EXIT_INTERNAL_ERROR
    first, note = done.err.splitlines()
    assert first.startswith("internal error: AttributeError: ")
    path = note.removeprefix("note: the traceback is in ")
    with open(path, encoding="utf-8") as file:
        assert "Traceback" in file.read()
    os.unlink(path)


def test_an_interrupt_ends_a_command_with_130(command, monkeypatch) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("relayvm.cli.info_commands.setting", interrupt)
    assert command("settings").code == EXIT_INTERRUPTED


def test_a_reader_that_leaves_early_is_no_error() -> None:
    script = f"'{sys.executable}' -m relayvm.cli.main explain | head -1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stderr == ""


def test_bench_of_kernels_prints_a_line_a_product(command, monkeypatch) -> None:
    products = [kernels.Product(2, 5), kernels.Product(0, 3, "int8", symbolic=True, threads=2)]
    monkeypatch.setattr(kernels, "grid", lambda full: products)
    done = command("bench", "kernels", "--grid")
    assert done.code == 0
    head, *rows = filter(None, done.out.splitlines())
    assert "of floor" in head
    assert [row.split()[:5] for row in rows] == [
        ["2", "5", "float32", "static", "1"],
        ["0", "3", "int8", "symbolic", "2"],
    ]


def test_a_part_of_the_grid_is_chosen_by_what_products_have(command, monkeypatch) -> None:
    measured = []

    def measure(product):
        measured.append(product)
        return kernels.Measured(product, 1e-6, 1e-6, None, 1e-6)

    monkeypatch.setattr(kernels, "measure", measure)
    chosen = ("--size", "512", "--size", "150", "--threads", "2", "--rows", "symbolic")
    assert command("bench", "kernels", "--grid", *chosen, "--dtype", "int8").code == 0
    expected = [
        p
        for p in kernels.grid(full=True)
        if p.size in (150, 512) and p.threads == 2 and p.symbolic and p.dtype == "int8"
    ]
    assert measured == expected and len(expected) == 2 * len(kernels.ROWS)


def test_the_grid_holds_every_size_twice_for_each_choice() -> None:
    every = set(kernels.grid(full=True))
    assert len(every) == 8 * 6 * 2 * 2 * 2
    assert set(kernels.grid(full=False)) < every


def test_a_product_measured_is_the_product() -> None:
    weight = np.arange(12, dtype=np.int8).reshape(4, 3)[:3]
    vm = kernels.machine(kernels.Product(2, 3, "int8", symbolic=True), weight)
    x = np.array([[1, 2, 3], [-1, 0, 5]], np.int8)
    np.testing.assert_array_equal(vm.run(x), x.astype(np.int32) @ weight.T)


@pytest.mark.slow
def test_bench_measures_an_operator_beside_numpy(command, tmp_path) -> None:
    output = tmp_path / "found.json"
    only = ("--only", "one_hot", "--part", "movement")
    done = command("bench", "operators", *only, "--threads", 2, "--output", output)
    assert done.code == 0
    (head, row) = done.out.strip().splitlines()
    assert "numpy/kernel" in head and row.split()[:2] == ["65536", "one_hot"]
    (found,) = json.loads(output.read_text())
    assert (found["operator"], found["part"]) == ("one_hot", "movement")
    assert found["kernel_seconds"] > 0 and found["floor_seconds"] > 0


def test_bench_refuses_parts_that_are_none(command) -> None:
    done = command("bench", "operators", "--part", "nothing")
    assert done.code and "`--part` is `nothing`, parts are elementwise, reductions" in done.err


def test_bench_makes_up_operands_for_operators_that_no_row_names() -> None:
    made = [row for part, row in operators.rows() if part == operators.OTHERS]
    assert {"isnan", "sinh", "nn.adaptive_avg_pool2d_grad"} <= {row.operator for row in made}
    assert not {row.operator for row in made} & {row.operator for row in _ROWS}


_ROWS = [row for part in PARTS.values() for row in part]


@pytest.mark.parametrize("part", PARTS)
def test_rows_of_the_operator_bench_have_types(part: str) -> None:
    rng, known = np.random.default_rng(0), operators.sizes(1 << 14)
    for row in PARTS[part]:
        if not row.fixed:
            values = [operators._array(rng, operand, known) for operand in row.operands]
            params = ", ".join(
                f"%{name}: Tensor[({', '.join(map(str, v.shape))},), {v.dtype}]"
                for name, v in zip(operators.NAMES, values)
            ).replace("(,)", "()")
            text = operators.text_of(row, known)
            infer_types(relayvm.parse(f"def @main({params}) {{ {text} }}"))

"""`relayvm compile` and `relayvm opt`."""

from __future__ import annotations

import io

import numpy as np
import pytest

import relayvm


def test_compile_writes_an_executable_beside_the_program(command, model) -> None:
    done = command("compile", model)
    output = model.with_suffix(".rvm")
    assert (done.code, done.err) == (0, "")
    assert done.out == f"wrote {output} ({output.stat().st_size:,} bytes)\n"
    assert relayvm.load(output).entries == ("main", "first", "divide")


def test_compile_writes_where_it_is_told(command, model, tmp_path) -> None:
    assert command("compile", model, "-o", tmp_path / "other.bin", "--opt-level", "0").code == 0
    assert relayvm.load(tmp_path / "other.bin").entries


def test_compile_gives_the_same_bytes_twice(command, model, tmp_path) -> None:
    for name in ("a", "b"):
        assert command("compile", model, "-o", tmp_path / name).code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_compile_stores_code_of_functions_on_demand(command, model, tmp_path) -> None:
    path = tmp_path / "jit.rvm"
    command("compile", model, "--jit", "--output", path)
    assert "all functions" in command("inspect", path).out


def test_compile_keeps_the_entries_that_are_named(command, model, tmp_path) -> None:
    assert command("compile", model, "--entry", "main", "-o", tmp_path / "a").code == 0
    assert relayvm.load(tmp_path / "a").entries == ("main",)


def test_compile_binds_parameters_to_arrays(command, model, arrays, tmp_path) -> None:
    output = tmp_path / "bound"
    assert command("compile", model, "--param", f"w={arrays['w']}", "-o", output).code == 0
    exe = relayvm.load(output)
    assert [p.name for p in exe.manifest.entry("main").parameters] == ["x"]
    x, w = (np.load(arrays[name]) for name in "xw")
    result = relayvm.VirtualMachine(exe).run(x)
    np.testing.assert_allclose(result, np.maximum(x @ w.T, 0), rtol=1e-6, atol=1e-6)


def test_emit_relay_prints_the_program_after_all_passes(command, model, arrays) -> None:
    done = command("compile", model, "--emit", "relay", "--param", f"w={arrays['w']}")
    assert done.code == 0
    assert "Primitive=1" in done.out and "%w" not in done.out
    assert not model.with_suffix(".rvm").exists()


def test_emit_assembly_prints_the_bytecode(command, model) -> None:
    done = command("compile", model, "--emit", "assembly")
    assert done.code == 0
    assert "kernel k0" in done.out and "return" in done.out


def test_emit_python_prints_the_program_as_python(command, model) -> None:
    done = command("compile", model, "--emit", "python")
    assert (done.code, done.err) == (0, "")
    assert "\ndef main(" in done.out and "import numpy as np" in done.out
    compile(done.out, "program", "exec")


def test_compile_for_another_cpu_makes_a_file_that_can_be_looked_at(
    command, model, tmp_path
) -> None:
    output = tmp_path / "arm.rvm"
    target = "cpu -mtriple=aarch64-unknown-linux-gnu"
    assert command("compile", model, "--target", target, "-o", output).code == 0
    assert "aarch64-unknown-linux-gnu" in command("inspect", output).out
    assert command("verify", output).code == 0
    assert command("run", output, "--random").code == 0, "its nests are compiled for this host"


def test_compile_shows_an_error_with_its_place_and_carets(command, tmp_path) -> None:
    bad = tmp_path / "bad.relay"
    bad.write_text("def @main(%x: Tensor[(2), float32]) {\n  ad(%x, %x)\n}\n")
    done = command("compile", bad)
    assert done.code == 1 and done.out == ""
    assert done.err.startswith("error[unknown-operator]: ")
    assert f"--> {bad}:2:3" in done.err and "^^" in done.err
    assert not bad.with_suffix(".rvm").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["missing.relay"], "unreadable-file"),
        (["MODEL", "-o", "MODEL"], "bad-option"),
        (["MODEL", "-o", "no/such/folder/x"], "unwritable-file"),
        (["MODEL", "--target", "toaster"], "unknown-target"),
        (["MODEL", "--target", "cpu -mcpu=pentium99"], "unknown-target"),
        (["MODEL", "--target", "cpu -mtriple=nowhere"], "unknown-target"),
        (["MODEL", "--param", "w=missing.npy"], "unreadable-file"),
        (["MODEL", "--param", "w=MODEL"], "unreadable-file"),
        (["MODEL", "--param", "v=W"], "unknown-parameter"),
        (["MODEL", "--param", "x=W"], "wrong-argument"),
        (["MODEL", "--param", "w=W", "--param", "w=W"], "bad-option"),
        (["MODEL", "--entry", "nothing"], "unknown-function"),
        (["FOLDER"], "unreadable-file"),
    ],
)
def test_compile_says_what_is_wrong(command, model, arrays, tmp_path, arguments, code) -> None:
    names = {"MODEL": str(model), "W": str(arrays["w"]), "FOLDER": str(tmp_path)}

    def filled(text: str) -> str:
        key, equals, value = text.rpartition("=")
        return names.get(text, key + equals + names.get(value, value))

    done = command("compile", *map(filled, arguments))
    assert done.code == 1 and done.err.startswith(f"error[{code}]: "), done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["compile"],
        ["compile", "m.relay", "--opt-level", "9"],
        ["compile", "m.relay", "--opt-level", "x"],
        ["compile", "m.relay", "--emit", "poetry"],
        ["compile", "m.relay", "--param", "w"],
        ["compile", "m.relay", "--param", "=w.npy"],
        ["opt", "m.relay", "--no-such-option"],
    ],
)
def test_usage_errors_end_with_2(command, arguments) -> None:
    done = command(*arguments)
    assert done.code == 2 and "usage: relayvm" in done.err and done.out == ""


def test_opt_runs_passes_in_order(command, model) -> None:
    done = command("opt", model, "--passes=infer_types,to_anf,fuse")
    assert done.code == 0 and "Primitive=1" in done.out
    assert "Primitive" not in command("opt", model, "--passes=infer_types").out


def test_opt_without_passes_prints_the_program(command, model) -> None:
    done = command("opt", model)
    assert done.code == 0
    assert command("opt", model).out == done.out
    assert relayvm.parse(done.out)


def test_opt_shows_types_and_library_on_demand(command, tmp_path) -> None:
    path = tmp_path / "list.relay"
    path.write_text("def @main(%n: int32) -> int32 { @sum(Cons(%n, Nil)) }\n")
    assert "def @sum" not in command("opt", path).out
    assert "def @sum" in command("opt", path, "--library").out
    typed = command("opt", path, "--passes=infer_types", "--show-types").out
    assert "List[int32]" in typed


def test_opt_reads_standard_input(command, monkeypatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("def @main(%x: int32) { %x + 1 }"))
    assert "add(%x, 1)" in command("opt", "-").out


def test_opt_lists_all_passes(command) -> None:
    from relayvm.compiler.passes import PASSES

    header, *lines = command("opt", "--list").out.splitlines()
    assert header.split()[:2] == ["PASS", "LEVEL"]
    assert [line.split()[0] for line in lines] == list(PASSES)
    for line, row in zip(lines, PASSES.values()):
        assert line.split()[1] == (str(row.opt_level) if row.in_pipeline else "-")
        assert all(f"{name}=" in line for name, _ in row.options)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["MODEL", "--passes=nothing"], "unknown-pass"),
        (["missing.relay"], "unreadable-file"),
        ([], "bad-option"),
    ],
)
def test_opt_says_what_is_wrong(command, model, arguments, code) -> None:
    done = command("opt", *(str(model) if a == "MODEL" else a for a in arguments))
    assert done.code == 1 and done.err.startswith(f"error[{code}]: "), done.err

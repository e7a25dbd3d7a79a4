"""Commands on executables: run, verify, inspect, disassemble, assemble."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import relayvm


def test_run_calls_main_with_arrays_from_files(command, executable, arrays, tmp_path) -> None:
    given = [f"--input={name}={path}" for name, path in arrays.items()]
    done = command("run", executable, *given, "--output", tmp_path / "results")
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("output: float32[2, 4] [[")
    x, w = (np.load(arrays[name]) for name in "xw")
    result = np.load(tmp_path / "results" / "output.npy")
    np.testing.assert_allclose(result, np.maximum(x @ w.T, 0), rtol=1e-6, atol=1e-6)


def test_random_arguments_follow_from_the_seed(command, executable) -> None:
    first, again, other = (command("run", executable, "--random", f"--seed={s}") for s in (1, 1, 2))
    assert first.code == 0 and first.out == again.out != other.out


@pytest.mark.parametrize("seed", range(6))
def test_random_arguments_may_be_of_a_data_type(command, executable, seed) -> None:
    done = command("run", executable, "--entry", "first", "--random", "--seed", seed)
    assert done.code == 0 and done.out.startswith("output: float32[2, 3]")


def test_constants_that_a_file_lacks_are_given_by_a_file(command, model, arrays, tmp_path) -> None:
    whole, small, constants = (tmp_path / n for n in ("whole.rvm", "small.rvm", "w.npz"))
    command("compile", model, "--param", f"w={arrays['w']}", "-o", whole)
    exe, moved = relayvm.load(whole).split_constants(1)
    exe.save(small)
    np.savez(constants, **moved)
    given = [f"--input=x={arrays['x']}"]
    assert "bound late" in command("inspect", small).out
    assert command("verify", small).code == 0
    done = command("run", small, *given)
    assert done.code == 1 and done.err.startswith("error[late-constants]")
    expected = command("run", whole, *given).out
    assert command("run", small, *given, "--constants", constants).out == expected
    done = command("profile", small, "--random", "--constants", arrays["x"])
    assert done.code == 1 and done.err.startswith("error[unreadable-file]")
    data = constants.read_bytes()
    for at in range(0, len(data), 7):
        constants.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
        done = command("run", small, *given, "--constants", constants)
        told = ("error[unreadable-file]", "error[wrong-constants]")
        assert done.out == expected if done.code == 0 else done.err.startswith(told)
    done = command("run", small, *given, "--constants", tmp_path / "none.npz")
    assert done.code == 1 and "none.npz` cannot be read" in done.err


def test_random_arguments_of_recursive_types_end(command, tmp_path) -> None:
    text = "def @main(%l: List[int32], %t: (bool, float16)) -> int32 { @length(%l) }"
    relayvm.compile(relayvm.parse(text)).save(tmp_path / "list.rvm")
    for seed in range(20):
        assert command("run", tmp_path / "list.rvm", "--random", "--seed", seed).code == 0


def test_symbolic_sizes_of_random_arguments_are_chosen(command, tmp_path) -> None:
    text = "def @main[n](%x: Tensor[(n, 2), float32]) -> Tensor[(n, 2), float32] { exp(%x) }"
    relayvm.compile(relayvm.parse(text)).save(tmp_path / "exp.rvm")
    done = command("run", tmp_path / "exp.rvm", "--random", "--size", 5)
    assert done.out.startswith("output: float32[5, 2]")


def test_any_number_of_threads_prints_the_same(command, executable, monkeypatch) -> None:
    run = ("run", executable, "--random")
    assert len({command(*run, "--threads", n).out for n in (1, 2, 5)}) == 1
    assert command(*run, "--threads", 0).code == 2
    monkeypatch.setenv("RELAYVM_NUM_THREADS", "0")
    done = command(*run)
    assert done.code == 1 and "`num_threads` is 0" in done.err


def test_check_finite_refuses_nan(command, executable, tmp_path) -> None:
    for name, values in (("a", [1, 0, 2]), ("b", [1, 0, 0])):
        np.save(tmp_path / f"{name}.npy", np.array(values, np.float32))
    given = [f"--input={n}={tmp_path / n}.npy" for n in "ab"]
    assert command("run", executable, "--entry", "divide", *given).code == 0
    done = command("run", executable, "--entry", "divide", *given, "--check-finite")
    assert done.code == 1 and done.err.startswith("error[not-finite]: result `output`")


def test_files_of_bfloat16_go_in_and_out(command, tmp_path) -> None:
    text = "def @main(%x: Tensor[(3), bfloat16], %w: Tensor[(3), bfloat16]) { %x * %w }"
    x = np.array([1, 2.5, -0.5], ml_dtypes.bfloat16)
    whole = relayvm.compile(relayvm.parse(text), params={"w": x})
    small, constants = whole.split_constants(1)
    small.save(tmp_path / "small.rvm")
    np.savez(tmp_path / "w.npz", **constants)
    np.save(tmp_path / "x.npy", x)
    given = [f"--input=x={tmp_path / 'x.npy'}", "--constants", tmp_path / "w.npz"]
    done = command("run", tmp_path / "small.rvm", *given, "--check-finite", "--output", tmp_path)
    assert (done.code, done.out) == (0, "output: bfloat16[3] [1, 6.25, 0.25]\n")
    assert np.load(tmp_path / "output.npy").tobytes() == (x * x).tobytes()
    assert command("run", tmp_path / "small.rvm", "--random", *given[1:]).code == 0


def test_limits_end_a_run_with_a_trap(command, tmp_path) -> None:
    text = "def @main(%n: int32) -> int32 { if (%n == 0) { 0 } else { 1 + @main(%n - 1) } }"
    relayvm.compile(relayvm.parse(text, name="deep.relay")).save(tmp_path / "deep.rvm")
    np.save(tmp_path / "n.npy", np.int32(1000))
    run = ["run", tmp_path / "deep.rvm", f"--input=n={tmp_path / 'n.npy'}"]
    assert command(*run).out == "output: int32[] 1000\n"
    done = command(*run, "--max-depth", 100)
    assert done.code == 1 and done.err.startswith("error[out-of-depth]")
    assert "deep.relay:1" in done.err and "at " in done.err
    done = command(*run, "--max-steps", 10)
    assert done.code == 1 and done.err.startswith("error[out-of-steps]")


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        ([], "wrong-argument", ["`x`"]),
        (["--input=x=X"], "wrong-argument", ["`w`"]),
        (["--random", "--input=y=X"], "wrong-argument", ["`y`"]),
        (["--random", "--input=w=X"], "wrong-argument", ["`w`", "4", "2"]),
        (["--random", "--input=x=missing.npy"], "unreadable-file", ["missing.npy"]),
        (["--random", "--entry=nothing"], "unknown-entry", ["`nothing`", "`main`", "`first`"]),
        (["--random", "--output=X"], "unwritable-file", ["x.npy"]),
        (["--random", "--max-memory=10"], "out-of-memory", []),
    ],
)
def test_run_says_what_is_wrong(command, executable, arrays, arguments, code, names) -> None:
    filled = [a.replace("=X", f"={arrays['x']}") for a in arguments]
    done = command("run", executable, *filled)
    assert done.code == 1 and done.err.startswith(f"error[{code}]: "), done.err
    assert all(name in done.err for name in names), done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["run", "f", "--input", "x"],
        ["run", "f", "--seed=-1"],
        ["run", "f", "--max-steps=many"],
        ["run", "f", "--engine=steam"],
        ["assemble", "f"],
        ["bench"],
        ["bench", "treelstm"],
        ["bench", "treelstm", "--trees=f", "--limit=0"],
        ["dance"],
        [],
    ],
)
def test_usage_errors_end_with_2(command, arguments) -> None:
    done = command(*arguments)
    assert done.code == 2 and "usage: relayvm" in done.err and done.out == ""


def test_verify_accepts_a_sound_file(command, executable) -> None:
    done = command("verify", executable)
    assert done.code == 0 and done.out.startswith(f"{executable}: sound, Executable(")


@pytest.mark.parametrize("name", ["run", "verify", "inspect", "disassemble"])
def test_files_that_are_no_executables_are_refused(command, model, tmp_path, name) -> None:
    (tmp_path / "empty").write_bytes(b"")
    for path in (model, tmp_path / "empty", tmp_path / "missing", tmp_path):
        done = command(name, path)
        assert done.code == 1 and done.err.startswith("error["), done.err
        assert done.out == "" and "help: " in done.err


@pytest.mark.parametrize("name", ["run", "verify", "inspect", "disassemble"])
def test_a_damaged_file_is_refused(command, executable, built, name) -> None:
    executable.write_bytes(built[:200] + bytes([built[200] ^ 1]) + built[201:])
    done = command(name, executable)
    assert done.code == 1 and done.err.startswith("error[checksum-mismatch]: ")


def test_verify_reads_the_constants_too(command, tmp_path) -> None:
    weight = np.ones((64, 64), np.float32)
    text = "def @main(%x: Tensor[(2, 64), float32], %w: Tensor[(64, 64), float32]) {\n"
    module = relayvm.parse(text + "  nn.dense(%x, %w)\n}")
    data = bytearray(relayvm.compile(module, params={"w": weight}).to_bytes())
    data[-5] ^= 1
    (tmp_path / "damaged.rvm").write_bytes(data)
    assert command("inspect", tmp_path / "damaged.rvm").code == 0
    done = command("verify", tmp_path / "damaged.rvm")
    assert done.code == 1 and done.err.startswith("error[checksum-mismatch]: ")


def test_inspect_shows_all_that_a_file_holds(command, executable) -> None:
    out = command("inspect", executable).out
    assert f"compiled by relayvm {relayvm.__version__}" in out
    assert "Pair = Both(Tensor[(2, 3), float32], Tensor[(2, 3), float32]) | Neither" in out
    assert "main(x: Tensor[(2, 3), float32], w: Tensor[(4, 3), float32]) -> " in out
    assert "(float32[2, 3], float32[4, 3]) -> (float32[2, 4])" in out
    assert "native code" in out and "bytes, needs" in out
    assert "for " not in out.split("sections")[1]


def test_inspect_prints_nests_on_demand(command, executable) -> None:
    short, long = command("inspect", executable).out, command("inspect", executable, "--nests").out
    assert long.startswith(short) and "for " in long.removeprefix(short)


def test_disassembled_text_assembles_to_the_same_program(command, executable, tmp_path) -> None:
    text = command("disassemble", executable, "--data").out
    (tmp_path / "text.rvmasm").write_text(text)
    done = command("assemble", tmp_path / "text.rvmasm", "-o", tmp_path / "again.rvm")
    assert done.code == 0 and done.out.startswith(f"wrote {tmp_path / 'again.rvm'} (")
    again = command("disassemble", tmp_path / "again.rvm", "--data").out.splitlines()
    # Native code is not part of the text, only mentioned.
    assert again == [line for line in text.splitlines() if "has native code" not in line]
    runs = [command("run", path, "--random") for path in (executable, tmp_path / "again.rvm")]
    assert runs[0].code == runs[1].code == 0 and runs[0].out == runs[1].out


def test_assemble_says_what_is_wrong(command, tmp_path) -> None:
    path = tmp_path / "bad.rvmasm"
    path.write_text("function f0 main () -> () registers 0 0 0 {\n    jump up\n}\n")
    done = command("assemble", path, "-o", tmp_path / "x")
    assert done.code == 1 and done.err.startswith("error["), done.err
    assert f"--> {path}:" in done.err and not (tmp_path / "x").exists()
    assert command("assemble", tmp_path / "missing", "-o", tmp_path / "x").code == 1


RANDOM_TYPES = [
    "(int32, (Tensor[(2), float32], bool))",
    "Array[(int32, List[float32])]",
    "Array[Array[int32]]",
    "Forest[int32]",
    "ref((int32, float32))",
    "Option[fn (int32) -> int32]",
    "Array[fn (int32) -> int32]",
    "Wide",
]
TYPES = """
type Forest[A] { Grow(A, Array[Forest[A]], List[(A, Forest[A])]) }
type Wide { More(Wide, Wide, Wide, Wide, Wide, Wide, Wide, Wide), End }
type Endless { Again(Endless) }
"""


@pytest.mark.parametrize("kind", RANDOM_TYPES)
def test_random_arguments_may_be_of_any_type_that_has_values(command, tmp_path, kind) -> None:
    text = f"{TYPES}def @main(%x: {kind}) -> (int32, {kind}) {{ (1, %x) }}"
    relayvm.compile(relayvm.parse(text)).save(tmp_path / "any.rvm")
    for seed in range(5):
        done = command("run", tmp_path / "any.rvm", "--random", "--seed", seed)
        assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("fn (int32) -> int32", "`x` is a function, which cannot be given from the command line"),
        ("(int32, fn (int32) -> int32)", "with functions, which cannot be given from the command"),
        ("Endless", "`x` is `Endless`, of which no value ends"),
    ],
)
def test_random_arguments_are_refused_with_the_reason(command, tmp_path, kind, words) -> None:
    text = f"{TYPES}def @main(%x: {kind}) -> (int32, {kind}) {{ (1, %x) }}"
    relayvm.compile(relayvm.parse(text)).save(tmp_path / "none.rvm")
    done = command("run", tmp_path / "none.rvm", "--random")
    assert done.code == 1 and "error[bad-option]" in done.err and words in done.err

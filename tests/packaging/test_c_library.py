"""The library for C programs: what it exports, and programs that run saved executables with it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.cli.bench import treelstm
from relayvm.cli.bench.trees import Node
from relayvm.cli.main import main
from relayvm.vm.runtime.c_library import FLAGS, HEADER, HERE, build_library
from relayvm.vm.sizes import number_of
from tests.vm.test_returned_sizes import REFUSED, TAKEN
from tests.vm.test_returned_sizes import TEXT as GIVERS

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "c"
SANITIZED = ("-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
WARNINGS = ("-Wall", "-Wextra", "-Wshadow", "-Wconversion", "-Wmissing-prototypes", "-Werror")
TEXT = """
def @main[n](%x: Tensor[(n), float32], %y: Tensor[(n), float32]) { (%x * 2f + %y, sum(%x)) }
def @narrow(%x: Tensor[(2), bfloat16], %k: bfloat16) { (%x * %k, %k * %k) }
def @total(%l: List[int64]) -> int64 { @foldl(fn (%a: int64, %b: int64) { %a + %b }, 0i64, %l) }
def @adder(%k: int64) -> fn (int64) -> int64 { fn (%i: int64) -> int64 { %i + %k } }
def @apply(%f: fn (int64) -> int64, %i: int64) -> int64 { %f(%i) }
def @swap(%p: (int64, int64)) { (%p.1, %p.0) }
def @extend(%a: Array[int64]) -> Array[int64] {
  array.push(%a, cast(array.length(%a), dtype="int64"))
}
def @count(%r: ref(int64)) -> int64 {
  let %_ = ref_write(%r, ref_read(%r) + 1i64);
  ref_read(%r)
}
def @pick(%x: Tensor[(2), int64], %i: Tensor[(1), int64]) { gather(%x, %i) }
def @spin(%i: int64) -> int64 { if (%i > 0i64) { @spin(%i - 1i64) } else { 7i64 } }
def @deep(%i: int64) -> int64 { if (%i > 0i64) { @deep(%i - 1i64) + 1i64 } else { 0i64 } }
def @stored(%x: Tensor[(2), int4]) { cast(%x, dtype="float8_e5m2") }
"""
ENTRIES = [
    "main",
    "narrow",
    "total",
    "adder",
    "apply",
    "swap",
    "extend",
    "count",
    "pick",
    "spin",
    "deep",
    "stored",
]
# Functions whose sizes are known by names that a call gave numbers.
NAMED = [("fun_named", "to_fun"), ("data_named", "to_data"), ("fun_fun", "to_fun")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="builds for Linux"),
]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("library")
    assert main(["library", "--output", str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == ["librelayvm.so", "relayvm.h"]
    return folder


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "all.rvm"
    relayvm.compile(relayvm.parse(TEXT), entries=ENTRIES).save(path)
    return path


def build(source: Path, library: Path, folder: Path) -> Path:
    """Compile a program with the header and the library alone."""
    made = folder / source.stem
    words = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", *WARNINGS, f"-I{library}", str(source)]
    words += [f"-L{library}", "-lrelayvm", f"-Wl,-rpath,{library}", "-lpthread", "-o", str(made)]
    subprocess.run(words, check=True, timeout=100)
    return made


def run(*command: object) -> str:
    """Run a program without an environment; return what it prints."""
    words = [str(c) for c in command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, env={}, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def numbers(text: str) -> list[float]:
    return [float.fromhex(line) for line in text.splitlines() if line.startswith(("0x", "-0x"))]


def test_only_what_the_header_declares_is_exported(library: Path) -> None:
    listed = run(shutil.which("nm"), "-D", "--defined-only", library / "librelayvm.so")
    declared = re.findall(r"^RVM_API .*?(rvm_\w+)\(", HEADER.read_text(), re.MULTILINE)
    assert len(declared) > 30
    assert sorted(line.split()[-1] for line in listed.splitlines()) == sorted(declared)


def test_the_library_needs_no_python(library: Path) -> None:
    needed = run(shutil.which("objdump"), "-p", library / "librelayvm.so")
    names = set(re.findall(r"NEEDED +(\S+)", needed))
    assert names <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def test_its_sources_compile_without_warnings() -> None:
    sources = sorted((HERE / "c_api").glob("*.c"))
    command = ["cc", *FLAGS, "-fsyntax-only", *WARNINGS, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_header_is_one_of_cpp_as_well(tmp_path: Path) -> None:
    if not shutil.which("c++"):
        pytest.skip("there is no C++ compiler")
    (tmp_path / "x.cpp").write_text('#include "relayvm.h"\nint main() { return RVM_BOOL; }\n')
    run(shutil.which("c++"), "-fsyntax-only", f"-I{HEADER.parent}", tmp_path / "x.cpp")


def test_every_function_of_the_header_does_what_it_says(
    library: Path, saved: Path, tmp_path: Path
) -> None:
    source = Path(__file__).with_name("use_library.c")
    declared = set(re.findall(r"^RVM_API .*?(rvm_\w+)\(", HEADER.read_text(), re.MULTILINE))
    assert declared <= set(re.findall(r"rvm_\w+", source.read_text()))
    assert run(build(source, library, tmp_path), saved) == "good\n"


def sanitized(source: Path, folder: Path) -> Path:
    """Compile a program and the library with checks of memory and of undefined behaviour."""
    files = [*HERE.glob("*.c"), *(HERE / "c_api").glob("*.c"), source]
    made = folder / f"{source.stem}_sanitized"
    words = ["cc", *FLAGS, "-O0", "-DRVM_STRESS", *SANITIZED, f"-I{HEADER.parent}", f"-I{HERE}"]
    words += [*map(str, files), "-lm", "-lpthread", "-o", str(made)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode and "asan" in done.stderr:
        pytest.skip("there is no AddressSanitizer")
    assert done.returncode == 0, done.stderr
    return made


def test_it_makes_no_error_of_memory_and_leaks_nothing(saved: Path, tmp_path: Path) -> None:
    made = sanitized(Path(__file__).with_name("use_library.c"), tmp_path)
    assert run(made, saved) == "good\n"


@pytest.fixture(scope="module")
def givers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("givers") / "givers.rvm"
    relayvm.compile(relayvm.parse(GIVERS)).save(path)
    return path


@pytest.mark.parametrize("checked", [False, True], ids=["optimised", "sanitized"])
def test_values_go_back_where_their_sizes_are_those_declared(
    checked: bool, library: Path, givers: Path, tmp_path: Path
) -> None:
    source = Path(__file__).with_name("give_and_take.c")
    host = sanitized(source, tmp_path) if checked else build(source, library, tmp_path)
    # Not made anew for the other type, as in Python: the two have layouts of their own.
    other = ("empty", "to_list")
    taken = [pair for pair in TAKEN if pair != other]
    pairs = [*REFUSED, ("twin", "to_twin"), *NAMED, other, *taken]
    lines = run(host, givers, *(name for pair in pairs for name in pair)).splitlines()
    told = dict(zip(pairs, lines, strict=True))
    assert {pair for pair, line in told.items() if line == "taken"} == set(taken)
    for giver, taker in pairs[: -len(taken)]:
        place = "field 1 is" if giver == "pair" else f"wrong-argument: `b` of `{taker}` is"
        assert place in told[giver, taker] and " was given" in told[giver, taker]
    declared = "`b` of `to_bt` is `Bt[3]`, but `Bt[?]` was given"
    inside = "in which a tensor has the sizes (2)"
    assert told["bt_any", "to_bt"] == f"wrong-argument: {declared} {inside}"
    declared = "`b` of `to_fun` is `fn () -> Tensor[(3), float32]`"
    given = "`fn () -> Tensor[(2), float32]` was given"
    assert told["fun", "to_fun"] == f"wrong-argument: {declared}, but {given}"


def test_a_size_with_names_is_the_number_that_python_computes(tmp_path: Path) -> None:
    dims = ["n + m", "0 - n*m + 7", "-n", "--n*-m", "((n + 5) // m)*n + (m % n)", "7 // (0 - n)"]
    dims += ["(0 - 7) % n", "min(n, m) + max(n, in)", "broadcast(1, m)", "broadcast(n, m)", "k*2"]
    dims += [
        "(n // (n - 2))",
        "n % (n - 2)",
        "n + k",
        "n +",
        "n m",
        "other(n, m)",
        "min(n)",
        "",
        "+n",
    ]
    dims += ["+n", "(" * 40 + "n" + ")" * 40, "(" * 9999 + "n" + ")" * 9999, "-" * 9999 + "n"]
    dims += ["9223372036854775807 + n - n", "99999999999999999999", "-9223372036854775807 - 1"]
    known = {"n": 2, "m": 3, "in": 7, "k*2": 10}
    wanted = [known.get(dim, number_of(dim, known)) for dim in dims]
    wanted[dims.index("+n")] = None  # Python's, not the language's
    wanted[dims.index("9223372036854775807 + n - n")] = None  # too large for a size on the way
    wanted[dims.index("99999999999999999999")] = None
    host = sanitized(Path(__file__).with_name("size_of_dim.c"), tmp_path)
    found = [None if line == "none" else int(line) for line in run(host, *dims).splitlines()]
    assert dict(zip(dims, found, strict=True)) == dict(zip(dims, wanted, strict=True))


def test_the_example_of_a_network_gives_the_bits_of_python(library: Path, tmp_path: Path) -> None:
    exe = relayvm.compile(relayvm.parse(EXAMPLES / "mlp.relay"))
    exe.save(tmp_path / "mlp.rvm")
    text = run(build(EXAMPLES / "run_mlp.c", library, tmp_path), tmp_path / "mlp.rvm", 5)
    x = np.array([(i * 7 % 9 - 4) / 4 for i in range(20)], np.float32).reshape(5, 4)
    expected = relayvm.VirtualMachine(exe).run(x).ravel().tolist()
    assert text.startswith("main: x: Tensor[(n, 4), float32] -> Tensor[(n, 3), float32]\n")
    assert numbers(text) == expected


def test_the_example_of_trees_gives_the_bits_of_python(library: Path, tmp_path: Path) -> None:
    weights = treelstm.make_weights().named()
    exe = relayvm.compile(relayvm.parse(treelstm.PROGRAM), params=weights, entries=["main"])
    exe.save(tmp_path / "trees.rvm")
    host = build(EXAMPLES / "run_trees.c", library, tmp_path)
    vectors = {
        c: np.array([[((ord(c) * 31 + i * 17) % 101 - 50) / 64 for i in range(300)]], np.float32)
        for c in "abcd"
    }
    for text, tree in (
        ("a", "a"),
        ("((a b) (c (d a)))", Node(Node("a", "b"), Node("c", Node("d", "a")))),
    ):
        states = relayvm.VirtualMachine(exe).run(treelstm.to_values(exe, tree, vectors))
        expected = [value for state in states for value in state.ravel().tolist()]
        assert numbers(run(host, tmp_path / "trees.rvm", text)) == expected


def test_the_makefile_of_the_examples_builds_them(library: Path, tmp_path: Path) -> None:
    for source in EXAMPLES.iterdir():
        shutil.copy(source, tmp_path)
    words = ["make", "-s", "-C", str(tmp_path), f"LIBRARY={library}", "run_mlp", "run_trees"]
    subprocess.run(words, check=True, timeout=100)
    assert (tmp_path / "run_mlp").exists() and (tmp_path / "run_trees").exists()


@pytest.mark.parametrize("compiler", [["no-such-compiler"], ["cc", "--no-such-option"]])
def test_a_compiler_that_fails_is_an_error(compiler: list[str], tmp_path: Path) -> None:
    with pytest.raises(RelayError) as caught:
        build_library(tmp_path, compiler)
    assert caught.value.code == "no-c-compiler" and compiler[0] in caught.value.message
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RelayError) as caught:
        build_library(tmp_path / "file" / "library")
    assert caught.value.code == "unwritable-file"

"""Damaged executables are refused with the byte or section, or run within their limits.

The loader, verifier and machine run as a program of their own under ASan and UBSan.
"""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import struct
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.codec import encode
from relayvm.vm.executable import load
from tests.fuzz.mutants import damage_text, mutants, seeds
from tests.vm.samples import PROBES, build, program

ROOT = Path(__file__).resolve().parents[2]
RUNTIME = ROOT / "relayvm" / "vm" / "runtime"
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-DRVM_STRESS", "-O1", "-g1", "-fno-omit-frame-pointer"]
COUNT = 1500
SEED = 20261129
REFUSED = re.compile(
    r"rejected (bad-executable: byte \d+: "
    r"|checksum-mismatch: the checksum of (section `\w+` \(byte \d+, |the header )"
    r"|executable-version: the executable has format version \d+, this RelayVM reads version \d+)"
)
ACCEPTED = re.compile(r"accepted (\d+) (\d+): 0 objects are left")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="the driver is compiled with gcc"),
]


def _compile(source: Path, folder: Path) -> Path:
    made = folder / f"{source.stem}.o"
    command = ["gcc", *FLAGS, *SANITIZE, f"-I{RUNTIME}", "-c", str(source), "-o", str(made)]
    subprocess.run(command, check=True)
    return made


@pytest.fixture(scope="module")
def driver() -> Path:
    """Compile the driver, once for each state of its sources."""
    sources = [*sorted(RUNTIME.glob("*.c")), Path(__file__).with_name("fuzz_main.c")]
    digest = hashlib.sha256()
    for path in [*sources, *sorted(RUNTIME.glob("**/*.h")), *sorted(RUNTIME.glob("**/*.inc"))]:
        digest.update(path.read_bytes())
    folder = ROOT / "build" / "fuzz" / digest.hexdigest()[:16]
    made = folder / "fuzz_main"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(lambda source: _compile(source, folder), sources))
        link = ["gcc", *SANITIZE, *map(str, objects), "-lm", "-lpthread", "-o", f"{made}.new"]
        subprocess.run(link, check=True)
        Path(f"{made}.new").rename(made)
        for path in objects:
            path.unlink()
    return made


def run(driver: Path, files: list[bytes], folder: Path) -> list[str]:
    """Return what the driver says of each file; fails if a sanitizer stopped it."""
    path = folder / "files"
    path.write_bytes(b"".join(struct.pack("<I", len(f)) + f for f in files))
    done = subprocess.run([driver, path], capture_output=True, timeout=120, check=False)
    lines = done.stdout.decode(errors="replace").split("\n")[:-1]
    if done.returncode != 0:
        (ROOT / "build" / "fuzz" / "failing.rvm").write_bytes(files[len(lines)])
        number = len(lines)
        told = done.stderr.decode(errors="replace")
        pytest.fail(f"build/fuzz/failing.rvm, number {number}, stops the driver\n{told}")
    return lines


def test_good_executables_are_accepted_and_leave_nothing(driver, tmp_path):
    files = [encode(program(*PROBES.values(), stored=True)), *seeds(random.Random(0))]
    for line in run(driver, files, tmp_path):
        assert ACCEPTED.fullmatch(line), line


def test_damaged_executables_are_refused_with_a_place_or_run_in_their_limits(driver, tmp_path):
    made = list(mutants(COUNT, SEED))
    lines = run(driver, [m.data for m in made], tmp_path)
    assert len(lines) == len(made)
    accepted = runs = traps = 0
    for line in lines:
        match = ACCEPTED.fullmatch(line)
        if match is None:
            assert REFUSED.match(line), line
            continue
        accepted += 1
        runs += int(match[1])
        traps += int(match[2])
    assert accepted >= 0.1 * len(made)
    assert 0 < traps < runs
    for level in ("bytes", "tables", "text"):
        assert any(m.level == level and s[0] == "a" for m, s in zip(made, lines)), level


def test_python_reads_what_the_loader_accepts_and_refuses_the_rest():
    accepted = 0
    for mutant in mutants(300, SEED + 1):
        try:
            executable = load(mutant.data, native=False, builder=build)
        except RelayError as failure:
            assert failure.code in ("bad-executable", "checksum-mismatch", "executable-version")
            continue
        accepted += 1
        assert repr(executable).startswith("Executable(")
        try:
            executable.disassemble()
        except RelayError as failure:
            assert "the manifest cannot be read" in failure.message
    assert accepted >= 30


def test_damaged_text_is_refused_with_a_span_or_assembled():
    choice = random.Random(SEED)
    bases = seeds(choice)
    made = [damage_text(choice, choice.choice(bases)) for _ in range(100)]
    assert 0 < sum(data is None for data in made) < len(made)

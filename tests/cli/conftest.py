"""A command runner, and a small program as text, executable and arguments."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from relayvm.cli.main import main

PROGRAM = """\
type Pair { Both(Tensor[(2, 3), float32], Tensor[(2, 3), float32]), Neither }
def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) -> Tensor[(2, 4), float32] {
  nn.relu(nn.dense(%x, %w))
}
def @first(%p: Pair) -> Tensor[(2, 3), float32] {
  match (%p) { Both(%a, _) => tanh(%a), Neither => zeros(shape=[2, 3], dtype="float32") }
}
def @divide(%a: Tensor[(3), float32], %b: Tensor[(3), float32]) -> Tensor[(3), float32] { %a / %b }
"""


@dataclass(frozen=True)
class Done:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(capsys):
    """Run the command line in this process; whatever it does, it shows no traceback."""

    def run(*arguments: object) -> Done:
        capsys.readouterr()
        try:
            code = main([str(a) for a in arguments])
        except SystemExit as stop:
            code = int(stop.code or 0)
        written = capsys.readouterr()
        assert "Traceback" not in written.out + written.err
        return Done(code, written.out, written.err)

    return run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.relay"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    import relayvm

    return relayvm.compile(relayvm.parse(PROGRAM, name="model.relay")).to_bytes()


@pytest.fixture
def executable(tmp_path: Path, built: bytes) -> Path:
    path = tmp_path / "built.rvm"
    path.write_bytes(built)
    return path


@pytest.fixture
def arrays(tmp_path: Path) -> dict[str, Path]:
    """Arguments of `main` as files, by name."""
    rng = np.random.default_rng(3)
    paths = {}
    for name, shape in (("x", (2, 3)), ("w", (4, 3))):
        paths[name] = tmp_path / f"{name}.npy"
        np.save(paths[name], rng.normal(size=shape).astype(np.float32))
    return paths

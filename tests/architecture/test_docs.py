"""What README and docs say is true: code runs, commands work, named tests and files exist."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.cli.main import main
from relayvm.compiler.passes import run_passes
from relayvm.ir.printer import print_module
from relayvm.vm.runtime.c_library import build_library

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    p
    for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    if "reference" not in p.relative_to(ROOT).parts
)
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:|#)([^)#]+)(#[^)]*)?\)")
PATH = re.compile(r"`((?:docs|tests|relayvm|examples|bench)/[^`:]*)`")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it stands, its language with options, its text."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


BLOCKS = [
    Block(page, page.read_text()[: match.start()].count("\n") + 1, match[1], match[2])
    for page in PAGES
    for match in FENCE.finditer(page.read_text())
]


def blocks(language: str) -> list[Block]:
    return [b for b in BLOCKS if b.language.split(" ")[0] == language]


@pytest.mark.parametrize("block", blocks("python"), ids=str)
def test_python_in_docs_runs(block: Block, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    exec(compile(block.text, str(block), "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("block", blocks("relay"), ids=str)
def test_programs_in_docs_have_types_or_the_error_that_is_shown(block: Block) -> None:
    wanted = dict(option.split("=") for option in block.language.split(" ")[1:]).get("error")
    try:
        run_passes(relayvm.parse(block.text, name=str(block)), ["infer_types"])
        code = None
    except RelayError as failure:
        code = failure.code
    assert code == wanted


def commands() -> list[tuple[Block, list[str]]]:
    """Return the command lines of each console block."""
    return [
        (b, [line[2:] for line in b.text.splitlines() if line.startswith("$ ")])
        for b in blocks("console")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("block", blocks("c"), ids=str)
def test_programs_in_c_in_docs_run(block: Block, tmp_path: Path) -> None:
    header, _ = build_library(tmp_path)
    relayvm.compile(relayvm.parse(ROOT / "examples" / "c" / "mlp.relay")).save(tmp_path / "mlp.rvm")
    (tmp_path / "run.c").write_text(block.text)
    words = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", f"-I{header.parent}", "run.c"]
    words += ["-L.", "-lrelayvm", "-Wl,-rpath,.", "-o", "run"]
    subprocess.run(words, cwd=tmp_path, check=True, timeout=100)
    done = subprocess.run(["./run"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"3 numbers, the first is 0\.\d+\n", done.stdout) and not done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("block", "lines"), commands(), ids=lambda v: str(v) if v is Block else "")
def test_commands_in_docs_work(block: Block, lines, tmp_path: Path, monkeypatch, capsys) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    assert lines
    for line in lines:
        program, *words = shlex.split(line)
        assert program == "relayvm", line
        output = words[words.index(">") + 1] if ">" in words else None
        assert main(words[: words.index(">")] if output else words) == 0, line
        written = capsys.readouterr()
        assert written.out and not written.err, line
        if output:
            Path(output).write_text(written.out)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_and_paths_in_docs_lead_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text())
    targets = [(page.parent / m[1]) for m in LINK.finditer(re.sub(r"`[^`]*`", "", text))]
    targets += [ROOT / m[1] for m in PATH.finditer(text) if not re.search(r"[<*{]", m[1])]
    missing = [str(t) for t in targets if not t.exists()]
    assert not missing


def test_every_guarantee_names_a_test_that_exists() -> None:
    page = ROOT / "docs" / "guarantees.md"
    promises = [line for line in page.read_text().splitlines() if line.startswith("- ")]
    assert len(promises) > 20
    for promise in promises:
        named = TEST.findall(promise)
        assert named, promise
        for path, name in named:
            assert name in functions_of(ROOT / path), promise


def functions_of(path: Path) -> set[str]:
    return {n.name for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.FunctionDef)}


def test_make_targets_in_docs_exist() -> None:
    rules = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        named = set(re.findall(r"`make ([a-z-]+)", page.read_text()))
        assert named <= rules, page


def test_the_life_of_a_program_is_as_the_architecture_page_shows_it() -> None:
    page = ROOT / "docs" / "architecture.md"
    program, fused, bytecode = (b.text for b in BLOCKS if b.page == page and b.language)
    module = relayvm.parse(program)
    passed = run_passes(module, ["infer_types", "to_anf", "fuse"])
    assert print_module(passed) == fused
    assert bytecode.strip() in "\n".join(
        line.strip() for line in relayvm.compile(module).disassemble().splitlines()
    )

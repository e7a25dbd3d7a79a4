"""A function that is being written, and its definition once its body is."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field

from relayvm.base.dims import DimVar
from relayvm.compiler.to_python.text import AgainLine, Line, Names, Suite, walk
from relayvm.ir.expr import Function

Uses = Callable[[str], str]


@dataclass(slots=True, eq=False)
class Frame:
    """A function that is being written: what its text needs beside its statements.

    A part of another function is `tail_of` it where nothing follows: what it returns is what that
    one does.
    """

    function: Function
    name: str
    parent: Frame | None = None
    tail_of: Frame | None = None
    params: list[str] = field(default_factory=list)
    body: Suite = field(default_factory=Suite)
    dims: dict[DimVar, str] = field(default_factory=dict)
    dim_lines: list[str] = field(default_factory=list)
    repeats: bool = False
    has_functions: bool = False


def free_names(body: Suite, is_local: Callable[[str], bool]) -> list[str]:
    """Return the local names that statements use and do not bind."""
    lines = [f"{' ' * depth}{inside.lines[index]}" for inside, index, depth in walk(body)]
    bound: set[str] = set()
    used: dict[str, None] = {}
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                bound.add(node.id)
            elif is_local(node.id):
                used[node.id] = None
    return sorted(name for name in used if name not in bound)


def return_again(body: Suite, uses: Uses) -> None:
    """Turn calls of the function that a body is a part of into what that one returns."""
    stack = [body]
    while stack:
        suite = stack.pop()
        for index, line in enumerate(suite.lines):
            if isinstance(line, Suite):
                stack.append(line)
            elif isinstance(line, AgainLine):
                suite.lines[index] = f"return {uses('Again')}({', '.join(line.args)})"


def define(frame: Frame, place: Suite, names: Names, uses: Uses) -> None:
    """Add the definition of a function whose body is written."""
    _write_again(frame, uses)
    params = ", ".join(frame.params)
    place.add(f"def {frame.name}({params}):")
    top = Suite(list(frame.dim_lines))
    if not frame.repeats:
        top.lines.extend(frame.body.lines)
    elif frame.has_functions:
        # Closures see variables, not values: each turn has variables of its own.
        step = names.new("step")
        inner = Suite([*frame.dim_lines, *frame.body.lines])
        call = ", ".join([step, *frame.params])
        top = Suite([f"def {step}({params}):", inner])
        top.add(f"return {uses('repeat')}({call})")
    else:
        top = Suite(["while True:", Suite([*frame.dim_lines, *frame.body.lines])])
    place.add(top)


def _write_again(frame: Frame, uses: Uses) -> None:
    """Turn calls of the function itself in tail position into statements."""
    if not frame.repeats:
        return
    stack = [frame.body]
    while stack:
        suite = stack.pop()
        for index, line in enumerate(suite.lines):
            if isinstance(line, Suite):
                stack.append(line)
            elif isinstance(line, AgainLine):
                suite.lines[index] = Suite(_again(frame, line, uses), flat=True)


def _again(frame: Frame, line: AgainLine, uses: Uses) -> list[Line]:
    if frame.has_functions:
        return [f"return {uses('Again')}({', '.join(line.args)})"]
    pairs = [(p, a) for p, a in zip(frame.params, line.args) if p != a]
    left, right = ", ".join(p for p, _ in pairs), ", ".join(a for _, a in pairs)
    return [f"{left} = {right}", "continue"] if pairs else ["continue"]

"""A module as one Python text: helpers, data types, functions, constants."""

from __future__ import annotations

import inspect
import re
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.compiler.infer_types import infer_types
from relayvm.compiler.to_python import support
from relayvm.compiler.to_python.functions import FunctionWriter
from relayvm.compiler.to_python.shared import Shared
from relayvm.compiler.to_python.text import Suite, walk
from relayvm.ir.module import Module
from relayvm.ir.printer import print_type
from relayvm.ops import OPS, Operator, numeric
from relayvm.ops.pickling import place_of

INDENT = "    "
# The type of a function stands beside it for people to read.
_MOST_OF_A_COMMENT = 2000

OPERATOR_CALL = '''

def op(name, *operands, **attrs):
    """Return what an operator of the table gives."""
    row = OPS[name]
    return _arrays(row.meaning(list(map(_arrays, operands)), row.complete_attrs(attrs)))


def _arrays(value):
    return tuple(map(_arrays, value)) if isinstance(value, tuple) else np.asarray(value)
'''


def to_python(module: Module) -> str:
    """Return a program as Python text that gives the same values bit for bit, for debugging.

    It needs numpy alone, and the operator table for operators that numpy has no short spelling of;
    a program's own operators are imported from the modules that define them. Raises RelayError
    `bad-operator` for one that its module does not have under its name.
    Tail calls of a function to itself are loops; other calls take Python's stack. Shape rules of
    operators are not checked again. What nests deeper than Python can is cut into functions.
    """
    text, shared = write(infer_types(module))
    for operator in _own_operators(shared):
        if place_of(operator) is None:
            message = f"operator `{operator.name}` cannot be imported by a Python text"
            help = "define it at the top level of a module, under the name of its function"
            raise error("bad-operator", message, help=help)
    return text


def write(module: Module) -> tuple[str, Shared]:
    """Return the text of a typed module and what it shares."""
    shared = Shared(module)
    functions = [_function_text(shared, name) for name in module.functions]
    constants = shared.constant_lines()
    parts = [_header(shared), *_helpers(shared), *_classes(shared), *functions]
    if constants:
        parts.append("\n".join(constants))
    return "\n\n\n".join(part.strip("\n") for part in parts) + "\n", shared


def _header(shared: Shared) -> str:
    imports = ["from __future__ import annotations", "", "import numpy as np"]
    if "erf" in shared.helpers:
        imports.insert(2, "import math")
    imports += shared.imports
    if shared.operators:
        imports.append("from relayvm.ops import OPS")
    places = {op.name: place_of(op) for op in _own_operators(shared)}
    own = [f"{n!r}: row_of_module{(n, *place)!r}" for n, place in places.items() if place]
    if own:
        imports.append("from relayvm.ops.pickling import row_of_module")
        imports += ["", "OPS = {", *(f"{INDENT}{row}," for row in ["**OPS", *own]), "}"]
    # As on the machine, integers wrap and divisions by zero give what they give, without a word.
    imports += ["", 'np.seterr(all="ignore")']
    return "\n".join(imports + [OPERATOR_CALL] * bool(shared.operators))


def _own_operators(shared: Shared) -> list[Operator]:
    """Return the operators that a text calls and that are no rows of the table."""
    return [op for name, op in shared.operators.items() if OPS.get(name) is not op]


def _helpers(shared: Shared) -> list[str]:
    found: list[str] = []
    names = dict.fromkeys(["Data"] if shared.classes else [])
    for name in (*names, *shared.helpers):
        home: Any = support if hasattr(support, name) else numeric
        found += _source(home, name)
    return list(dict.fromkeys(found))


def _source(home: Any, name: str) -> list[str]:
    """Return the source of a definition, after that of what it uses from its module."""
    text = inspect.getsource(getattr(home, name))
    needed = ["_erf = np.frompyfunc(math.erf, 1, 1)"] if name == "erf" else []
    for other, value in vars(home).items():
        own = inspect.isfunction(value) and value.__module__ == home.__name__
        if own and home is numeric and other != name and re.search(rf"\b{other}\(", text):
            needed += _source(home, other) if f"np.{other}(" not in text else []
    return [*needed, text]


def _classes(shared: Shared) -> list[str]:
    parts = []
    for name, class_name in shared.type_names.items():
        parts.append(f"class {class_name}(Data):\n{INDENT}type_name = {name!r}")
        for constructor in shared.module.types[name].constructors:
            own = shared.class_of(constructor)
            row = f"{INDENT}name, tag = {constructor.name!r}, {constructor.index}"
            parts.append(f"class {own}({class_name}):\n{row}")
    return parts


def _function_text(shared: Shared, name: str) -> str:
    function = shared.module[name]
    suite = FunctionWriter(shared, name, function).write()
    place = f"{function.span}: " if function.span else ""
    kind = function.checked_type
    typed = print_type(kind, _MOST_OF_A_COMMENT) if kind is not None else ""
    lines = [f"# {place}@{name}: {typed}".replace("\n", " ")]
    for inside, index, depth in walk(suite):
        lines.append((INDENT * depth + str(inside.lines[index])).rstrip())
    return "\n".join(lines)


__all__ = ["Suite", "to_python", "write"]

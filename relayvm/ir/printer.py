"""Modules, expressions and types to Relay text: canonical, and read back by the parser as the same
program.

A node that is used more than once, or whose text is long, becomes `%0 = ...;` in the scope where it
is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Union

import numpy as np

from relayvm.base.attribute_kinds import fit_attribute
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import (
    Attrs,
    AttrValue,
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.lexer import write_name
from relayvm.ir.literal import write_number
from relayvm.ir.metadata import Section
from relayvm.ir.module import Module, TypeData
from relayvm.ir.scope import Scope, Scopes
from relayvm.ir.shared_types import Abbreviations
from relayvm.ir.type_printer import (
    Names,
    TypeNames,
    joined,
    print_type,
    reserved_names,
    top_names,
    tuple_text,
)
from relayvm.ir.types import FuncType, TensorType, Type
from relayvm.ir.visit import LEAVES, free_vars, pattern_vars, type_walk

__all__ = ["is_atom", "non_default_attrs", "print_expr", "print_module", "print_type"]

MAX_INLINE = 60
MAX_COLUMNS = 100
MAX_INDENT = 40

NO_EXPR = Tuple(())

# What stands behind the text of an expression.
Annotate = Callable[[Expr], str]

# A text that may have many lines: strings and texts in order; a number is a line end that changes
# the indentation.
Rope = list[Union[str, int, "Rope"]]
Text = Union[str, Rope]


def print_module(
    module: Module,
    *,
    show_types: bool = False,
    library: bool = False,
    metadata: bool = True,
    section: Section | None = None,
    annotate: Annotate | None = None,
) -> str:
    """Return a module as text; `library` includes what came from the prelude.

    `show_types` adds inferred types as comments, `annotate` what it returns of an expression.
    `metadata` adds the section of constants that have
    no literal; without it the text is for reading only. The constants are kept in `section`, which
    says how they are written: within the text, or in a file beside it.
    """
    section = section or Section()
    parts: list[str] = []
    if module.attrs:
        parts.append(_print_attrs(module, section))
    hidden = frozenset() if library else _hidden(module)
    reserved = reserved_names(module.types)
    for name, data in module.types.items():
        if name not in hidden:
            parts.append(_print_type_data(data, reserved))
    functions = {n: f for n, f in module.functions.items() if n not in hidden}
    printers = [_Printer(f, section, show_types, reserved, annotate) for f in functions.values()]
    if names := _shorten(printers, reserved):
        parts.append(names)
    for name, printer in zip(functions, printers):
        parts.append(printer.definition(name))
    text = "\n".join(parts)
    return "".join([text, "\n", *section.parts()]) if section.constants and metadata else text


def _hidden(module: Module) -> frozenset[str]:
    """Return what a reader of the text has from the prelude, or does not need."""
    if not module.altered:
        return module.library
    from relayvm.ir.parser.library import unused_library

    return unused_library(module)


def print_expr(
    expr: Expr,
    *,
    show_types: bool = False,
    module: Module | None = None,
    metadata: bool = True,
    annotate: Annotate | None = None,
) -> str:
    """Return an expression as text for `parse_expr`, without a final newline."""
    section = Section()
    reserved = reserved_names(module.types if module else ())
    printer = _Printer(expr, section, show_types, reserved, annotate)
    printer.free = free_vars(expr)
    text = _shorten([printer], reserved) + printer.expression()
    return "".join([text, "\n", *section.parts()]) if section.constants and metadata else text


def print_pattern(pattern: Pattern) -> str:
    """Return the text of a pattern: `Cons(%x, _)`."""
    return _Printer(NO_EXPR, Section(), False, frozenset())._pattern(pattern)


def _shorten(printers: Sequence[_Printer], reserved: frozenset[str]) -> str:
    """Let printers write names for long types, and return the lines `type T = ...;` in front."""
    short = Abbreviations()
    for printer in printers:
        short.add(printer.scopes, printer.written_types())
    short.settle()
    names = top_names(short, reserved)
    taken = reserved.union(names.values())
    for printer in printers:
        printer.types.names.reserved = taken
        printer.types.shorten(short, names)
    types = TypeNames(taken)
    types.shorten(short, names)
    return "".join(f"type {line};\n" for line in types.abbreviations(None))


def _print_attrs(module: Module, section: Section) -> str:
    types = TypeNames(frozenset(), lambda data: _meta_constant(section, data))
    values = [
        f"{name}={types.attr_value(v)}" for name, v in sorted(module.attrs.items(), key=_name)
    ]
    return f"#[attrs({', '.join(values)})]\n"


def _meta_constant(section: Section, data: np.ndarray) -> str:
    return f"meta[relay.Constant][{section.number(data)}]"


def _print_type_data(data: TypeData, reserved: frozenset[str]) -> str:
    fields = [field for c in data.constructors for field in c.inputs]
    short = Abbreviations()
    short.count(fields)
    short.settle()
    names = top_names(short, reserved)
    types = TypeNames(reserved.union(names.values()))
    types.shorten(short, names)
    types.place = data.span
    if data.extern and not data.constructors:
        params = types.params(data.type_params, ())
        return f"extern type {write_name(data.header.name)}{params}\n"
    # Only a tensor type shows the kind of a dim parameter whatever stands around it.
    tensors = (t for f in fields for t in type_walk(f) if isinstance(t, TensorType))
    params = types.params(data.type_params, tensors)
    if rows := types.abbreviations(None):
        own = [params[1:-1]] if params else []
        params = "[\n  " + ",\n  ".join([*own, *rows]) + "\n]"
    lines = [f"type {write_name(data.header.name)}{params} {{"]
    for constructor in data.constructors:
        inputs = ", ".join(types.type(i) for i in constructor.inputs)
        lines.append(f"  {write_name(constructor.name)}{f'({inputs})' if inputs else ''},")
    return "\n".join([*lines, "}"]) + "\n"


def non_default_attrs(op: Expr, attrs: Attrs) -> list[tuple[str, AttrValue]]:
    """Return the attributes in schema order without those that equal their default; those of no
    schema by name.
    """
    if not attrs:
        return []
    if not isinstance(op, Op):
        return sorted(attrs.items(), key=_name)
    known = []
    for row in op.attributes:
        if row.name in attrs:
            # As the parser would read it: a number for a list of one, an int for a float.
            fits, fitted = fit_attribute(row.kind, attrs[row.name])
            value = fitted if fits else attrs[row.name]
            if row.required or not _is_default(value, row.default):
                known.append((row.name, value))
    names = {row.name for row in op.attributes}
    return known + sorted(((n, v) for n, v in attrs.items() if n not in names), key=_name)


def _name(row: tuple[str, AttrValue]) -> str:
    return row[0]


def _is_default(value: AttrValue, default: AttrValue) -> bool:
    default = tuple(default) if isinstance(default, list) else default
    if isinstance(value, float) and isinstance(default, float):
        return repr(value) == repr(default)  # -0.0 is not 0.0
    return type(value) is type(default) and value == default


class _Printer:
    """Prints one function or expression."""

    def __init__(
        self,
        root: Expr,
        section: Section,
        show_types: bool,
        reserved: frozenset[str],
        annotate: Annotate | None = None,
    ) -> None:
        self.section = section
        self.annotate = annotate or (self._type_comment if show_types else None)
        self.show_types = show_types
        self.types = TypeNames(reserved, lambda data: _meta_constant(section, data))
        self.names = Names()
        self.root = root
        self.free: tuple[Var, ...] = ()
        self.scopes = Scopes(root)
        self.lines: dict[Scope, Rope] = {}
        self.bound: dict[int, str] = {}

    def definition(self, name: str) -> str:
        """Return `def @name...` of a function, with a final newline."""
        function = self.root
        assert isinstance(function, Function)
        self.types.place = function.span
        self.types.names.enter(function.type_params)
        head = self._head(function, f"def {write_name(name, '@')}")
        body = trampoline(self._block(function.body, self.scopes.binding[id(function)][0]))
        return _flatten([head, " {", 1, body, -1, "}", 0])

    def expression(self) -> str:
        """Return an expression with the declarations of its free variables."""
        self.types.place = self.root.span
        rope: Rope = []
        for var in self.free:
            rope += [f"free_var {self._binder(var)};", 0]
        rope.append(trampoline(self._block(self.root, self.scopes.of[id(self.root)])))
        return _flatten(rope)

    def written_types(self) -> Iterator[Type | None]:
        """Yield the types that the text has, the outer ones first."""
        yield from (var.type_annotation for var in self.free)
        for node in self.scopes.nodes:
            match node:
                case Function():
                    yield from (param.type_annotation for param in node.params)
                    yield node.ret_type
                    yield from chain.from_iterable(c.args for c in node.type_constraints)
                case Let():
                    yield node.var.type_annotation
                case Call():
                    yield from node.type_args
                case Match():
                    for clause in node.clauses:
                        yield from (v.type_annotation for v in pattern_vars(clause.lhs))
            if self.show_types and not isinstance(node, LEAVES) and not is_atom(node):
                yield node.checked_type

    # --- blocks --------------------------------------------------------------------------

    def _block(self, node: Expr, scope: Scope) -> Recursive[Any]:
        """Return the statements and the result that fill one block."""
        block = scope.block
        lines: Rope = []
        self.lines[block] = lines
        while isinstance(node, Let) and self.scopes.inner[id(node)].block is block:
            recursive = isinstance(node.value, Function)
            binder = self._binder(node.var) if recursive else ""
            value = yield self._placed(node.value)
            if (
                node.var.name == "_"
                and id(node.var) not in self.scopes.uses
                and not node.var.type_annotation
            ):
                lines += [value, ";", 0]
            else:
                lines += [f"let {binder or self._binder(node.var)} = ", value, ";", 0]
            node = node.body
        result = yield self._placed(node)
        lines.append(result)
        return lines

    def _braces(self, node: Expr, scope: Scope) -> Recursive[Any]:
        """Return a block in braces: on one line if it is a short result and no more."""
        rope = yield self._block(node, scope)
        return _one_line(rope) or ["{", 1, rope, -1, "}"]

    def _binder(self, var: Var) -> str:
        name = f"%{self.names.of(var, var.name)}"
        annotation = var.type_annotation
        return name if annotation is None else f"{name}: {self.types.type(annotation)}"

    # --- nodes ---------------------------------------------------------------------------

    def _placed(self, node: Expr) -> Recursive[Any]:
        """Return a node where it may take many lines: as a statement or as the result of a
        block.
        """
        if isinstance(node, LEAVES):
            return self._leaf(node)
        if self._is_atom(node):
            return self._nullary(node)
        if id(node) in self.bound:
            return self.bound[id(node)]
        text = yield self._text(node)
        if self.scopes.is_shared(node):
            return self._bind(node, text)
        return text

    def _operand(self, node: Expr, bind: bool = False) -> Recursive[Any]:
        """Return a node as part of a line; one that is shared, long or has many lines is bound
        first.
        """
        text = yield self._placed(node)
        if isinstance(text, str):
            leaf = isinstance(node, LEAVES) or text.startswith("%") or self._is_atom(node)
            if leaf or (len(text) <= MAX_INLINE and not bind):
                return text
        return self._bind(node, text)

    def _bind(self, node: Expr, text: Text) -> str:
        if id(node) not in self.bound:
            name = self.bound[id(node)] = f"%{len(self.bound)}"
            self.lines[self.scopes.of[id(node)].block] += [f"{name} = ", text, ";", 0]
        return self.bound[id(node)]

    def _is_atom(self, node: Expr) -> bool:
        return is_atom(node)

    def _leaf(self, node: Expr) -> str:
        match node:
            case Var():
                return f"%{self.names.of(node, node.name)}"
            case GlobalVar():
                return write_name(node.name, "@")
            case Constant():
                literal = write_number(node.data)
                return literal or _meta_constant(self.section, node.data)
            case Op():
                return node.name
            case Constructor():
                return write_name(node.name)
        raise TypeError(f"{type(node).__name__} is not a leaf")

    def _nullary(self, node: Expr) -> str:
        if isinstance(node, Call):
            types = ", ".join(self.types.type(t) for t in node.type_args)
            return self._leaf(node.op) + (f"[{types}]" if types else "")
        return "()"

    def _text(self, node: Expr) -> Recursive[Any]:
        text: Text
        match node:
            case Call():
                text = yield self._call(node)
            case Tuple():
                fields: list[str] = []
                for item in node.fields:
                    fields.append((yield self._operand(item)))
                text = tuple_text(fields)
            case TupleGetItem():
                value = yield self._callee(node.tuple_value)
                text = f"{value}.{node.index}"
            case Function():
                text = yield self._function(node)
            case Let():
                text = yield self._braces(node, self.scopes.inner[id(node)])
            case If():
                text = yield self._if(node)
            case Match():
                text = yield self._match(node)
            case RefCreate():
                text = f"ref({yield self._operand(node.value)})"
            case RefRead():
                text = f"ref_read({yield self._operand(node.ref)})"
            case RefWrite():
                ref = yield self._operand(node.ref)
                text = f"ref_write({ref}, {yield self._operand(node.value)})"
            case _:
                raise TypeError(f"{type(node).__name__} is not an expression")
        comment = self.annotate(node) if self.annotate else ""
        if comment:
            text = text + comment if isinstance(text, str) else [text, comment]
        return text

    def _type_comment(self, node: Expr) -> str:
        ty = node.checked_type
        return "" if ty is None else f" /* ty={self.types.type(ty)} */"

    def _callee(self, node: Expr) -> Recursive[Any]:
        """Return what stands before `(` or `.`: other texts than names and calls are bound or put
        in parentheses.
        """
        bind = not isinstance(node, (Call, TupleGetItem)) or self.annotate is not None
        text = yield self._operand(node, bind)
        # `Nil()` is `Nil`: what calls the value of `Nil` is `(Nil)()`.
        return f"({text})" if isinstance(node, Constant) or self._is_atom(node) else text

    def _call(self, node: Call) -> Recursive[Any]:
        callee = yield self._callee(node.op)
        args: list[str] = []
        for arg in node.args:
            args.append((yield self._operand(arg)))
        attrs = non_default_attrs(node.op, node.attrs)
        is_op = isinstance(node.op, Op)
        args += [f"{name}={self.types.attr_value(value, is_op)}" for name, value in attrs]
        if attrs and not isinstance(node.op, Op):
            args.append('attrs_type_key="DictAttrs"')
        types = ", ".join(self.types.type(t) for t in node.type_args)
        return f"{callee}{f'[{types}]' if types else ''}({', '.join(args)})"

    def _head(self, function: Function, start: str) -> str:
        """Return a function up to its body; a long list of parameters has one a line."""
        written = [p.type_annotation for p in function.params] + [function.ret_type]
        uses = [t for t in written if t is not None]
        is_def = start.startswith("def")
        type_params = self.types.params(function.type_params, uses, function, is_def)
        params = [self._binder(p) for p in function.params]
        params += [
            f"{name}={self.types.attr_value(value)}"
            for name, value in sorted(function.attrs.items(), key=_name)
        ]
        constraints = self.types.where(function.type_constraints)
        result = "" if function.ret_type is None else self.types.type(function.ret_type)
        if constraints and isinstance(function.ret_type, FuncType):
            result = f"({result})"  # The constraints are not those of the result.
        end = f") -> {result}{constraints}" if result else f"){constraints}"
        line = f"{start}{type_params}({', '.join(params)}{end}"
        if len(line) <= MAX_COLUMNS or not is_def:
            return line
        return f"{start}{type_params}(\n  " + ",\n  ".join(params) + f"\n{end}"

    def _function(self, node: Function) -> Recursive[Any]:
        before = self.types.names.enter(node.type_params)
        head = self._head(node, "fn ")
        body = yield self._braces(node.body, self.scopes.binding[id(node)][0])
        self.types.names.leave(before)
        return f"{head} {body}" if isinstance(body, str) else [head, " ", body]

    def _if(self, node: If) -> Recursive[Any]:
        cond = yield self._operand(node.cond)
        first, second = self.scopes.binding[id(node)]
        yes = yield self._block(node.true_branch, first)
        no = yield self._block(node.false_branch, second)
        if _one_line(yes) and _one_line(no):
            line = f"if ({cond}) {_one_line(yes)} else {_one_line(no)}"
            if len(line) <= MAX_COLUMNS - MAX_INDENT:
                return line
        return [f"if ({cond}) {{", 1, yes, -1, "} else {", 1, no, -1, "}"]

    def _match(self, node: Match) -> Recursive[Any]:
        data = yield self._operand(node.data)
        head = f"{'match' if node.complete else 'match?'} ({data})"
        if not node.clauses:
            return head + " { }"
        rope: Rope = [head + " {", 1]
        for i, clause in enumerate(node.clauses):
            pattern = self._pattern(clause.lhs)
            body = yield self._block(clause.rhs, self.scopes.binding[id(node)][i])
            if len(body) == 1:
                rope += [f"{pattern} => ", body, ",", 0]
            else:
                rope += [f"{pattern} => {{", 1, body, -1, "},", 0]
        rope[-1] = -1
        return [*rope, "}"]

    def _pattern(self, pattern: Pattern) -> str:
        parts: list[str] = []
        waiting: list[str | Pattern] = [pattern]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                parts.append(item)
                continue
            match item:
                case PatternVar():
                    parts.append(self._binder(item.var))
                case PatternConstructor() if not item.patterns:
                    parts.append(write_name(item.constructor.name))
                case PatternConstructor():
                    parts.append(f"{write_name(item.constructor.name)}(")
                    waiting.extend(reversed([*joined(item.patterns), ")"]))
                case PatternTuple():
                    last = ",)" if len(item.patterns) == 1 else ")"
                    waiting.extend(reversed(["(", *joined(item.patterns), last]))
                case _:
                    parts.append("_")
        return "".join(parts)


def is_atom(node: Expr) -> bool:
    """Tell whether a node is a unit value or a constructor without fields: these are never
    shared.
    """
    if isinstance(node, Tuple):
        return not node.fields
    return (
        isinstance(node, Call)
        and isinstance(node.op, Constructor)
        and not node.op.inputs
        and not node.args
        and not node.attrs
    )


def _one_line(block: Rope) -> str:
    """Return the block in braces if it is a short result and no more, else nothing."""
    if len(block) == 1 and isinstance(block[0], str) and len(block[0]) <= MAX_INLINE:
        return f"{{ {block[0]} }}"
    return ""


def _flatten(rope: Rope) -> str:
    parts: list[str] = []
    depth = 0
    stack: list[Iterator[Union[str, int, Rope]]] = [iter(rope)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, str):
                parts.append(item)
            elif isinstance(item, int):
                depth += item
                parts.append("\n" + "  " * min(depth, MAX_INDENT))
            else:
                stack.append(iter(item))
                break
        else:
            stack.pop()
    return "".join(parts)

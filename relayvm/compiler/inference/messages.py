"""How type errors read: the text of types and the diagnostics of mismatches."""

from __future__ import annotations

from collections.abc import Sequence

from relayvm.base.diagnostics import Diagnostic, DiagnosticSink, Note
from relayvm.base.dims import Dim, DimExpr, dim_text
from relayvm.base.source import Span
from relayvm.compiler.inference.holes import MOST_PARTS, Hole, Reason, has_dim_hole
from relayvm.compiler.inference.type_walk import resolve
from relayvm.ir.expr import Constructor, Expr, GlobalVar, Op, Var
from relayvm.ir.types import (
    POISON,
    FuncType,
    GlobalTypeVar,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeRelation,
    TypeVar,
)

MAX_TYPE_CHARACTERS = 300


class Reporter:
    """Turns what the solver finds into diagnostics."""

    def __init__(self, sink: DiagnosticSink) -> None:
        self.sink = sink

    def report(
        self,
        code: str,
        message: str,
        span: Span | None,
        label: str = "",
        notes: Sequence[Note] = (),
        help: str = "",
    ) -> None:
        """Keep one error."""
        self.sink.add(Diagnostic(code, message, span, label, tuple(notes), help))

    def mismatch(self, reason: Reason) -> None:
        """Report two types of different skeletons."""
        self._report(reason, "type-mismatch", "")

    def dim_mismatch(self, reason: Reason, source: Dim, target: Dim) -> None:
        """Report two dims that do not fit."""
        # A hole in the target is the ShapeVar of the called function, and has its name.
        label = f"dims differ: {dim_text(source)} and {dim_text(target)}"
        self._report(reason, "shape-mismatch", label)

    def infinite(self, reason: Reason) -> None:
        """Report a type that would contain itself."""
        if not reason.reported:
            reason.reported = True
            self.report(
                "infinite-type",
                "the type would have to contain itself",
                reason.span,
                help="annotate the parameters and the result of the function",
            )

    def too_large(self, reason: Reason) -> None:
        """Report a type that has too many parts to be found one by one."""
        reason.reported = True
        message = f"a type has more than {MOST_PARTS:,} parts that are to be found one by one"
        self.report("too-large-type", message, reason.span)

    def _report(self, reason: Reason, code: str, label: str) -> None:
        if reason.reported:
            return
        reason.reported = True
        actual, expected = type_text(reason.actual), type_text(reason.expected)
        message = reason.message.format(actual=f"`{actual}`", expected=f"`{expected}`")
        notes = reason.notes
        if actual == expected:
            notes += (Note("type parameters of one name, introduced at two places, differ"),)
        self.report(reason.code or code, message, reason.span, label, notes)


def type_text(type_: Type) -> str:
    """Return the type as Relay text, `_` for what is not known, cut where it is very long.

    Unlike the printer it takes types that are not complete, and its depth is not bounded.
    """
    parts: list[str] = []
    size = 0
    stack: list[Type | str] = [resolve(type_, {})]
    while stack and size < MAX_TYPE_CHARACTERS:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
            size += len(item)
        else:
            stack.extend(reversed(_pieces(item)))
    return "".join(parts) + ("..." if stack else "")


def _pieces(type_: Type) -> list[Type | str]:
    match type_:
        case TensorType():
            if not type_.shape:
                return [type_.dtype.name]
            dims = ", ".join(show_dim(d) for d in type_.shape)
            return [f"Tensor[({dims}), {type_.dtype.name}]"]
        case TupleType():
            return ["(", *_listed(type_.fields), ",)" if len(type_.fields) == 1 else ")"]
        case FuncType():
            names = ", ".join(p.name for p in type_.type_params)
            params = f"[{names}]" if names else ""
            where = [" where ", *_listed(type_.type_constraints)] if type_.type_constraints else []
            return [f"fn {params}(", *_listed(type_.arg_types), ") -> ", type_.ret_type, *where]
        case TypeRelation():
            return [f"{type_.name}(", *_listed(type_.args), ")"]
        case RefType():
            return ["ref(", type_.value, ")"]
        case TypeCall():
            args = ["[", *_listed(type_.args), "]"] if type_.args else []
            return [type_.func.name, *args]
        case ShapeArg():
            return [show_dim(type_.dim)]
        case GlobalTypeVar():
            return [type_.name]
        case TypeVar() if type_ is not POISON:
            return [type_.name]
    return ["_"]


def _listed(types: Sequence[Type]) -> list[Type | str]:
    pieces: list[Type | str] = []
    for type_ in types:
        pieces += [", ", type_] if pieces else [type_]
    return pieces


def show_dim(dim: Dim) -> str:
    """Return the dim as text, `_` for what is not known."""
    return "_" if isinstance(dim, DimExpr) and has_dim_hole(dim) else dim_text(dim)


def callee_text(callee: Expr) -> str:
    """Return how a message names what is called."""
    match callee:
        case GlobalVar():
            return f"`@{callee.name}`"
        case Var():
            return f"`%{callee.name}`"
        case Op() | Constructor():
            return f"`{callee.name}`"
    return "the function"


def origin_notes(args: Sequence[Expr]) -> tuple[Note, ...]:
    """Return notes that show where the variables among operands get their types."""
    notes: list[Note] = []
    for arg in args:
        if isinstance(arg, Var) and arg.span is not None:
            note = Note(f"`%{arg.name}` gets its type here", arg.span)
            if note not in notes:
                notes.append(note)
    return tuple(notes)


def is_open(type_: Type) -> bool:
    """Return True for a hole or what has a reported error."""
    return isinstance(type_, Hole) or type_ is POISON

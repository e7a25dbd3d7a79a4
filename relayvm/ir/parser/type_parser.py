"""The part of the parser that reads types, dims and type parameters, and that knows which names
are in scope.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import Any
from typing import TypeVar as GenericVar

from relayvm.base.diagnostics import DiagnosticSink, Note
from relayvm.base.dims import ANY, Dim, DimVar, symbol
from relayvm.base.dtypes import BY_NAME, DType
from relayvm.base.source import Span
from relayvm.base.trampoline import Recursive, trampoline
from relayvm.ir.expr import Attrs
from relayvm.ir.lexer import Tokens
from relayvm.ir.metadata import Metadata
from relayvm.ir.metadata.graph import Computed, Named, is_dim
from relayvm.ir.metadata.section import CONSTANTS
from relayvm.ir.module import Module, TypeData
from relayvm.ir.parser.dim_reader import DimReader, DimSource, computed_dim
from relayvm.ir.types import (
    POISON,
    POISON_DIM,
    POISON_DTYPE,
    RESERVED_NAMES,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    Kind,
    RefType,
    ShapeArg,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeParam,
    TypeRelation,
    TypeVar,
    scalar_type,
)
from relayvm.ir.visit import type_walk

# To find near names takes time: after so many errors nobody reads more of them.
MAX_SUGGESTIONS = 16
MAX_SUGGESTED = 500

T = GenericVar("T")


@dataclass(slots=True, eq=False)
class ParamEntry:
    """A type parameter in scope. Its kind is fixed by its first use, unless it is written.

    `same_as` are parameters of data types in whose place it was used before their kind was known.
    It may be a name for a type instead: `stands_for`.
    """

    name: str
    span: Span
    kind: Kind | None = None
    made: TypeParam | None = None
    same_as: list[ParamEntry] = field(default_factory=list)
    stands_for: Type | None = None

    def param(self) -> TypeParam:
        """Return the parameter itself; one that was never used is of kind Type."""
        if self.made is None:
            shape = self.kind is Kind.SHAPE_VAR
            self.made = DimVar(self.name) if shape else TypeVar(self.name, span=self.span)
            self.kind = Kind.SHAPE_VAR if shape else Kind.TYPE
        return self.made


@dataclass(slots=True, eq=False)
class TypeName:
    """A data type of the module: where it is defined and the kinds of its parameters."""

    name: str
    span: Span | None
    params: list[ParamEntry]
    token: int = 0
    extern: bool = False


class Scope(dict[str, T]):
    """Names in scope. `mark` and `undo` bracket a region; both cost what was bound in it."""

    def __init__(self) -> None:
        super().__init__()
        self._log: list[tuple[str, T | None]] = []

    def bind(self, name: str, value: T) -> None:
        self._log.append((name, self.get(name)))
        self[name] = value

    def reset(self) -> None:
        """Forget all names."""
        self.clear()
        self._log.clear()

    def mark(self) -> int:
        return len(self._log)

    def undo(self, mark: int) -> None:
        while len(self._log) > mark:
            name, old = self._log.pop()
            if old is None:
                del self[name]
            else:
                self[name] = old


class TypeParser(DimSource):
    """Reads types. Methods that return `Recursive` are run by `trampoline` or yielded."""

    def __init__(
        self, tokens: Tokens, sink: DiagnosticSink, library: Module | None, metadata: Metadata
    ) -> None:
        super().__init__(tokens, sink)
        self.library = library
        self.metadata = metadata
        self.type_names: dict[str, TypeName] = {}
        self.type_scope: Scope[ParamEntry] = Scope()
        self.used_library_types: set[str] = set()
        self.unclear_types: set[str] = set()
        self.unclear_params: list[TypeVar] = []
        self._suggestions_left = MAX_SUGGESTIONS

    def suggestion(self, name: str, known: Iterable[str], sigil: str = "") -> str:
        """Return a help text that names the nearest known name, or nothing."""
        near = self.nearest(name, known)
        return f"did you mean `{sigil}{near}`?" if near else ""

    def nearest(self, name: str, known: Iterable[str]) -> str:
        """Return the known name that a wrong one may be meant to be, or nothing."""
        if not self._suggestions_left:
            return ""
        self._suggestions_left -= 1
        names = [n for _, n in zip(range(MAX_SUGGESTED), known)]
        near = difflib.get_close_matches(name[:80], names, 1, 0.6)
        return near[0] if near else ""

    # --- type parameters -----------------------------------------------------------------

    def type_params(self, own: Iterable[ParamEntry] = ()) -> Recursive[Any]:
        """Read `[A, n: ShapeVar]` if it is there, and bring the names into scope; also
        `T = (A, int32)`, which is none of the parameters. `own` are those that were read before.
        """
        known = {entry.name: entry for entry in own}
        entries: dict[str, ParamEntry] = {}
        unclear: list[ParamEntry] = []
        if self.kind != "[":
            return []
        opened = self.index
        self.advance()
        while self.kind != "]":
            span = self.span()
            name = self.expect("ident", "]")
            if self.kind == "=":
                entry = yield self._abbreviation(name, span)
            else:
                entry = known.get(name) or ParamEntry(name, span)
                if self.accept(":") and not self._read_kind(entry):
                    unclear.append(entry)
            if name in entries:
                self.report(
                    "duplicate-name",
                    f"type parameter `{name}` is named twice",
                    span,
                    notes=[Note("first named here", entries[name].span)],
                )
                unclear.append(entry)
            elif self.may_name_a_type(name, span):
                self.type_scope.bind(name, entry)
            elif name == "Tensor":  # The others keep their meaning.
                unclear.append(entry)
            entries.setdefault(name, entry)
            if not self.accept(","):
                break
        self.expect("]", ",", opened=opened)
        for entry in unclear:
            self.type_scope.bind(entry.name, ParamEntry(entry.name, entry.span, stands_for=POISON))
        return [entry for entry in entries.values() if entry.stands_for is None]

    def type_abbreviation(self) -> None:
        """Read `type T = (A, int32);`, from where on the name stands for the type."""
        self.advance()
        span = self.span()
        name = self.expect("ident")
        first = self.type_names.get(name) or self.type_scope.get(name)
        if first is not None:
            notes = [Note("first defined here", first.span)] if first.span else []
            self.report("duplicate-name", f"type `{name}` is defined twice", span, notes=notes)
        entry: ParamEntry = trampoline(self._abbreviation(name, span))
        self.expect(";")
        if first is not None or not self.may_name_a_type(name, span):
            entry.stands_for = POISON
        if name not in BY_NAME and name != "_":
            self.type_scope.bind(name, entry)

    def _abbreviation(self, name: str, span: Span) -> Recursive[Any]:
        """Read `= (A, int32)`, for which the name stands."""
        self.expect("=")
        return ParamEntry(name, span, Kind.TYPE, stands_for=(yield self.type_()))

    def may_name_a_type(self, name: str, span: Span) -> bool:
        """Report a name of a type that means something else in the place of a type."""
        if name not in RESERVED_NAMES:
            return True
        message = f"no type can have the name `{name}`: {RESERVED_NAMES[name]}"
        self.report("reserved-name", message, span)
        return False

    def _read_kind(self, entry: ParamEntry) -> bool:
        """Read the kind of a type parameter; False if there is no such kind."""
        span = self.span()
        word = self.advance() if self.kind == "type" else self.expect("ident")
        for kind in (Kind.TYPE, Kind.SHAPE_VAR):
            if word == kind.value:
                entry.kind = kind
                return True
        self.report(
            "wrong-kind", f"a type parameter has kind `Type` or `ShapeVar`, not `{word}`", span
        )
        return False

    def _use_as(self, entry: ParamEntry, kind: Kind, span: Span) -> bool:
        """Fix or check the kind of a parameter at a use."""
        if entry.kind is None:
            entry.kind = kind
        if entry.kind is kind:
            return True
        is_dim = entry.kind is Kind.SHAPE_VAR
        self.report(
            "wrong-kind",
            f"`{entry.name}` stands for a {'dim' if is_dim else 'type'}, "
            f"but is used as a {'type' if is_dim else 'dim'}",
            span,
            notes=[Note(f"`{entry.name}` is introduced here", entry.span)],
        )
        return False

    # --- types ---------------------------------------------------------------------------

    def whole_type(self) -> Type:
        """Read one type, from outside of a running `trampoline`."""
        result: Type = trampoline(self.type_())
        return result

    def type_(self) -> Recursive[Any]:
        """Read one type."""
        leaf = self.leaf_type()
        if leaf is not None:
            return leaf
        begin = self.begin()
        kind = self.kind
        if kind == "(":
            return (yield self._tuple_type(begin))
        if kind == "fn":
            return (yield self._function_type(begin))
        if kind == "ref":
            self.advance()
            opened = self.index
            self.expect("(")
            value = yield self.type_()
            self.expect(")", opened=opened)
            return RefType(value, span=self.span_from(begin))
        if kind != "ident":
            self.fail("a type")
        return (yield self._applied_type(begin))

    def leaf_type(self) -> Type | None:
        """Read a type that has no types inside, as most are, or return None: needs no generator."""
        if self.kinds[self.index] != "ident":
            return None
        if self.kinds[self.index + 1] != "[":
            return self._named_type()
        return self._tensor_type(self.begin()) if self.text == "Tensor" else None

    def _tuple_type(self, begin: int) -> Recursive[Any]:
        opened = self.index
        self.advance()
        fields: list[Type] = []
        comma = False
        while self.kind != ")":
            fields.append((yield self.type_()))
            comma = self.accept(",")
            if not comma:
                break
        self.expect(")", ",", opened=opened)
        if len(fields) == 1 and not comma:
            return fields[0]
        return TupleType(tuple(fields), span=self.span_from(begin))

    def _function_type(self, begin: int) -> Recursive[Any]:
        self.advance()
        mark = self.type_scope.mark()
        params: list[ParamEntry] = (yield self.type_params()) if self.kind == "[" else []
        opened = self.index
        self.expect("(", "[")
        arg_types: list[Type] = []
        while self.kind != ")":
            arg_types.append((yield self.type_()))
            if not self.accept(","):
                break
        self.expect(")", ",", opened=opened)
        self.expect("->")
        result = yield self.type_()
        constraints = yield self.constraints(params)
        self.type_scope.undo(mark)
        made = tuple(entry.param() for entry in params)
        return FuncType(tuple(arg_types), result, made, constraints, span=self.span_from(begin))

    def constraints(self, entries: Iterable[ParamEntry]) -> Recursive[Any]:
        """Read `where add(A, B, C), ...` if it is there; `entries` are what they are about."""
        found: list[TypeRelation] = []
        if self.kind != "ident" or self.text != "where":
            return ()
        first = self.index
        while self.index == first or (self.kind == "," and self._is_relation(self.index + 1)):
            faults = self.faults
            self.advance()
            begin = self.begin()
            name = self.expect("ident")
            opened = self.index
            self.expect("(")
            args: list[Type] = []
            written: dict[str, Any] = {}
            has_attrs = True
            while self.kind != ")":
                if self.kind == "ident" and self.next_kind() == "=":
                    before = self.faults
                    self.attribute(written)
                    has_attrs &= self.faults == before
                else:
                    args.append((yield self.type_()))
                if not self.accept(","):
                    break
            self.expect(")", ",", opened=opened)
            attrs = Attrs({n: v for n, (v, *_) in written.items()}) if written else None
            span = self.span_from(begin)
            if self.faults > faults or any(POISON in type_walk(a) for a in args):
                made = (entry.param() for entry in entries)
                self.unclear_params.extend(p for p in made if isinstance(p, TypeVar))
            if has_attrs:
                found.append(TypeRelation(name, tuple(args), attrs, span=span))
        return tuple(found)

    def _is_relation(self, index: int) -> bool:
        # No type is a name in front of a parenthesis, so what follows the comma is a constraint.
        return self.kinds[index] == "ident" and self.kinds[index + 1] == "("

    def attribute(self, values: dict[str, Any]) -> None:
        """Read one `name=value` into `values`."""
        raise AssertionError("the parser of attributes defines it")

    def _named_type(self) -> Type:
        span = self.span()
        name = self.advance()
        if name == "_":
            return IncompleteType(span=span)
        entry = self.type_scope.get(name)
        if entry is not None and entry.stands_for is not None:
            return entry.stands_for
        if entry is not None:
            usable = self._use_as(entry, Kind.TYPE, span)
            made = entry.param() if usable else None
            return made if isinstance(made, TypeVar) else POISON
        if name in BY_NAME:
            return scalar_type(BY_NAME[name])
        known = self.type_name(name)
        if known is None:
            self._unknown_type(name, span)
            return POISON
        return self._data_type(known, [], span)

    def _applied_type(self, begin: int) -> Recursive[Any]:
        span = self.span()
        name = self.advance()
        known = self.type_name(name) if name != "_" else None
        if known is None:
            if name in self.type_scope or name in BY_NAME or name == "_":
                self.report("wrong-kind", f"type `{name}` takes no arguments", span)
            else:
                self._unknown_type(name, span)
        if known is None:
            yield self.call_type_arguments()
            return POISON
        arguments = yield self._type_arguments(known)
        return self._data_type(known, arguments, self.span_from(begin))

    def _data_type(self, known: TypeName, arguments: list[Type], span: Span) -> Type:
        if known.name in self.unclear_types:
            return POISON
        if len(arguments) == len(known.params):
            return TypeCall(GlobalTypeVar(known.name), tuple(arguments), span=span)
        self.report(
            "wrong-kind",
            f"data type `{known.name}` has {_count(len(known.params), 'parameter')}, "
            f"but is given {_count(len(arguments), 'argument')}",
            span,
            notes=[Note(f"`{known.name}` is defined here", known.span)] if known.span else [],
        )
        return POISON

    def _unknown_type(self, name: str, span: Span) -> None:
        library = self.library.types if self.library else {}
        known = chain(self.type_scope, self.type_names, BY_NAME, ("Tensor",), library)
        self.report(
            "unknown-type",
            f"there is no type `{name}`",
            span,
            help=lambda: self.suggestion(name, known),
        )

    def type_name(self, name: str) -> TypeName | None:
        """Return the data type of this name: the module's own, else the library's, which is noted
        as used.
        """
        if name in self.type_names:
            return self.type_names[name]
        data = self.library.types.get(name) if self.library else None
        if data is None:
            return None
        self.used_library_types.add(name)
        self.type_names[name] = _library_name(data)
        return self.type_names[name]

    def _type_arguments(self, known: TypeName) -> Recursive[Any]:
        opened = self.index
        self.advance()
        arguments: list[Type] = []
        while self.kind != "]":
            place = len(arguments)
            param = known.params[place] if place < len(known.params) else None
            arguments.append((yield self._type_argument(param)))
            if not self.accept(","):
                break
        self.expect("]", ",", opened=opened)
        return arguments

    def _type_argument(self, param: ParamEntry | None) -> Recursive[Any]:
        begin = self.begin()
        if param is not None and param.kind is Kind.SHAPE_VAR:
            return self._dim_argument(begin)
        if self.kind == "ident" and self.next_kind() in (",", "]"):
            entry = self.type_scope.get(self.text)
            if entry is not None and entry.kind is None and param is not None and not param.kind:
                entry.same_as.append(param)
                self.advance()
                return IncompleteType()
        if self.kind in ("number", "?"):
            span = self.span()
            self.dim()
            self.report("wrong-kind", "a dim stands where a type is needed", span)
            return POISON
        return (yield self.type_())

    def _dim_argument(self, begin: int) -> Type:
        faults = self.faults
        dim = self.dim()
        sound = self.faults == faults
        return ShapeArg(dim if sound else POISON_DIM, span=self.span_from(begin))

    def call_type_arguments(self) -> Recursive[Any]:
        """Read `[int32, n + 1]` of a call: what cannot be a type is a dim."""
        opened = self.index
        self.advance()
        arguments: list[Type] = []
        while self.kind != "]":
            begin = self.begin()
            entry = self.type_scope.get(self.text) if self.kind == "ident" else None
            after = self.next_kind()
            is_function = self.text in ("min", "max", "floordiv", "floormod", "broadcast")
            if (
                self.kind in ("number", "?", "-")
                or (entry is not None and entry.kind is Kind.SHAPE_VAR)
                or (entry is not None and after not in (",", "]"))
                or (is_function and after == "(")
            ):
                arguments.append(self._dim_argument(begin))
            else:
                arguments.append((yield self.type_()))
            if not self.accept(","):
                break
        self.expect("]", ",", opened=opened)
        return arguments

    def _tensor_type(self, begin: int) -> Type:
        self.advance()
        outer = self.index
        self.advance()
        inner = self.index
        self.expect("(")
        shape: list[Dim] = []
        while self.kind != ")":
            faults = self.faults
            dim = self.dim()
            shape.append(dim if self.faults == faults else POISON_DIM)
            if not self.accept(","):
                break
        self.expect(")", ",", opened=inner)
        self.expect(",")
        dtype = self.dtype()
        self.expect("]", opened=outer)
        return TensorType(tuple(shape), dtype, span=self.span_from(begin))

    def dtype(self) -> DType:
        """Read the name of an element type; a wrong one is reported."""
        if self.kind != "ident":
            self.fail("an element type such as `float32`")
        span = self.span()
        name = self.advance()
        if name not in BY_NAME:
            self.report(
                "unknown-type",
                f"there is no element type `{name}`",
                span,
                help=lambda: self.suggestion(name, BY_NAME),
            )
        return BY_NAME.get(name, POISON_DTYPE)

    # --- dims ----------------------------------------------------------------------------

    def dim(self, allow_negative: bool = False) -> Dim:
        """Read a dim: `3`, `?`, `n*2 + 1`, `n // 2`, `min(n, m)`; `allow_negative` lets the result
        be below 0.
        """
        begin, first = self.begin(), self.index
        reader = DimReader(self, first)
        result = reader.sum(0)
        if isinstance(result, int) and not allow_negative and not 0 <= result < 1 << 63:
            self.report(
                "bad-dim",
                f"a dim is at least 0 and below 2^63, not {result}",
                self.span_from(begin),
            )
            return 1
        return result

    def dim_name(self) -> Dim:
        """Read the name of a symbolic dim; anything else in its place is reported."""
        span = self.span()
        name = self.advance()
        entry = self.type_scope.get(name)
        if entry is not None and entry.stands_for is POISON:
            self.faults += 1
            return ANY
        if entry is None and name in BY_NAME:
            self.report("wrong-kind", f"`{name}` is a type; here stands a dim", span)
            return ANY
        if entry is None:
            self.report(
                "unknown-type",
                f"there is no dim `{name}`",
                span,
                help=lambda: (
                    self.suggestion(name, self.type_scope)
                    or f"name it among the type parameters: `def @f[{name}](...)`"
                ),
            )
            return ANY
        if not self._use_as(entry, Kind.SHAPE_VAR, span):
            return ANY
        made = entry.param()
        return symbol(made) if isinstance(made, DimVar) else ANY

    # --- the metadata section ------------------------------------------------------------

    def meta_reference(self) -> tuple[str, int | None, Span]:
        """Read `meta[relay.Constant][0]`; the number is None if the section does not have it."""
        begin = self.begin()
        self.advance()
        outer = self.index
        self.expect("[")
        key = self.expect("ident")
        self.expect("]", opened=outer)
        outer = self.index
        self.expect("[")
        index = self.expect("number")
        self.expect("]", opened=outer)
        span = self.span_from(begin)
        if key == "VirtualDevice":
            return key, None, span
        count = self.metadata.count(key)
        if index.isdigit() and len(index) < 10 and int(index) < count:
            return key, int(index), span
        message = (
            f"the metadata section has {_count(count, f'`{key[:40]}`')}, no number {index[:20]}"
        )
        if not count:
            message = f"the metadata section has no `{key[:40]}`"
        if self.metadata.problem:  # Which is told where the section begins.
            self.faults += 1
        else:
            self.report("bad-metadata", message, span)
        return key, None, span

    def meta_dim(self) -> Dim:
        """Read a dim that stands in the metadata section."""
        key, index, span = self.meta_reference()
        if index is None:
            return ANY
        try:
            value = self.metadata.object(key, index).value() if key != CONSTANTS else None
        except ValueError as reason:
            self.report("bad-metadata", f"`meta[{key}][{index}]` cannot be read: {reason}", span)
            return ANY
        if not is_dim(value):
            self.report("bad-metadata", f"`meta[{key}][{index}]` is no dim", span)
            return ANY
        return self.dim_from_metadata(value)

    def dim_from_metadata(self, value: Any) -> Dim:
        """Return a dim of the metadata; a variable that no type parameter names is any size."""
        if isinstance(value, Named):
            entry = self.type_scope.get(value.name)
            made = entry.param() if entry is not None and entry.kind is Kind.SHAPE_VAR else None
            return symbol(made) if isinstance(made, DimVar) else ANY
        if isinstance(value, Computed):
            a, b = self.dim_from_metadata(value.a), self.dim_from_metadata(value.b)
            return computed_dim(value.op, a, b)
        return value if isinstance(value, int) else ANY


def _library_name(data: TypeData) -> TypeName:
    entries = []
    for param in data.type_params:
        kind = Kind.SHAPE_VAR if isinstance(param, DimVar) else Kind.TYPE
        entries.append(ParamEntry(param.name, None, kind, param))  # type: ignore[arg-type]
    return TypeName(data.header.name, data.span, entries, extern=data.extern)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"

"""What the functions of a text share: names, constants, classes, helpers and operators."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from relayvm.base.dims import AnyDim, Dim, DimExpr
from relayvm.base.dtypes import DType
from relayvm.base.narrow.arrays import narrow_name
from relayvm.compiler.to_python import support
from relayvm.compiler.to_python.spellings import (
    MEANINGS,
    is_helper,
    is_tensors,
    spelled,
)
from relayvm.compiler.to_python.text import POSTFIX, Names, Term, scalar_text, tuple_text
from relayvm.ir.expr import Attrs, Constant, Constructor
from relayvm.ir.module import Module
from relayvm.ir.printer import non_default_attrs
from relayvm.ir.types import Type
from relayvm.ops import OPS, Operator
from relayvm.ops.reshaping import with_sizes_of_zero

MOST_IN_PLACE = 6
# What the texts here use of Python and of their header.
BUILTINS = (
    "Exception",
    "bool",
    "dict",
    "enumerate",
    "float",
    "int",
    "isinstance",
    "len",
    "map",
    "str",
    "tuple",
    "type",
    "zip",
)
RESERVED = (
    "np",
    "math",
    "base64",
    "annotations",
    "op",
    "OPS",
    "row_of_module",
    "ANY",
    "Constant",
    "_erf",
    "_arrays",
    "Array",
)


class Shared:
    """The state of one text."""

    def __init__(self, module: Module) -> None:
        self.module = module
        helpers = [*vars(support), *(m.__name__ for m in MEANINGS.values() if is_helper(m))]
        self.names = Names([*BUILTINS, *RESERVED, *helpers])
        self.helpers: dict[str, None] = {}
        self.imports: dict[str, None] = {}
        self.operators: dict[str, Operator] = {}
        self.constants: dict[int, tuple[str, np.ndarray]] = {}
        self.classes: dict[tuple[str, int], str] = {}
        self.type_names: dict[str, str] = {}
        for name, data in module.types.items():
            if not data.constructors:
                continue
            self.type_names[name] = self.names.new(name)
            for constructor in data.constructors:
                self.classes[name, constructor.index] = self.names.new(constructor.name)
        self.function_names = {name: self.names.new(name) for name in module.functions}

    def uses(self, helper: str) -> str:
        """Return the name of a helper, which the text will define."""
        for needed in support.NEEDS.get(helper, ()):
            self.helpers[needed] = None
        self.helpers[helper] = None
        return helper

    def class_of(self, constructor: Constructor) -> str:
        """Return the class of the values of a constructor."""
        return self.classes[constructor.belong_to.name, constructor.index]

    def constant(self, data: np.ndarray) -> Term:
        """Return a tensor as text in place, or by name where it is large."""
        if data.ndim == 0 and not narrow_name(data):
            return Term(scalar_text(data[()]))
        if data.ndim == 1 and data.size <= MOST_IN_PLACE and data.dtype.kind in "biu":
            return Term(f"np.array({data.tolist()}, np.{data.dtype.name})")
        if id(data) not in self.constants:
            self.constants[id(data)] = (self.names.new("CONSTANT"), data)
        return Term(self.constants[id(data)][0])

    def constant_lines(self) -> list[str]:
        """Return the definitions of the tensors that have names."""
        lines = []
        for name, data in self.constants.values():
            short = data.size <= 64 and data.dtype.kind in "biu"
            if short:
                text = f"np.array({data.tolist()}, np.{data.dtype.name})"
                text += f".reshape({tuple_text([str(n) for n in data.shape])})"
            else:
                self.imports["import base64"] = None
                code = base64.b64encode(np.ascontiguousarray(data).tobytes()).decode()
                shape = tuple_text([str(n) for n in data.shape])
                dtype = f"np.{data.dtype.name}"
                narrow = narrow_name(data)
                if narrow:
                    self.imports["from relayvm.base.dtypes import BY_NAME"] = None
                    dtype = f'BY_NAME["{narrow}"].numpy'
                text = f'np.frombuffer(base64.b64decode("{code}"), {dtype})'
                text += f".reshape({shape})"
            lines.append(f"{name} = {text}")
        return lines

    def operator_call(
        self,
        operator: Operator,
        args: Sequence[Term],
        types: Sequence[Type | None],
        attrs: Mapping[str, Any],
        dims: Mapping[Dim, str],
    ) -> Term:
        """Return a call of an operator: in plain numpy where that gives the same bits."""
        complete = with_sizes_of_zero(operator.complete_attrs(attrs))
        known = [t for t in types if t is not None and is_tensors(t)]
        if len(known) == len(args) and OPS.get(operator.name) is operator:
            term = spelled(operator.name, args, known, complete, self.uses)
            if term is not None:
                return term
        self.operators[operator.name] = operator
        told = dict(non_default_attrs(operator, Attrs(complete)))
        given = [f"{n}={self.attribute(v, dims)}" for n, v in complete.items() if n in told]
        parts = [repr(operator.name), *(a.loose for a in args), *given]
        return Term(f"op({', '.join(parts)})", POSTFIX)

    def attribute(self, value: Any, dims: Mapping[Dim, str]) -> str:
        """Return an attribute value as text."""
        if isinstance(value, tuple):
            return tuple_text([self.attribute(v, dims) for v in value])
        if isinstance(value, Attrs):
            rows = [f"{n!r}: {self.attribute(v, dims)}" for n, v in value.items()]
            return "{" + ", ".join(rows) + "}"
        if isinstance(value, DimExpr):
            return dims[value]
        if isinstance(value, AnyDim):
            self.imports["from relayvm.base.dims import ANY"] = None
            return "ANY"
        if isinstance(value, Constant):
            self.imports["from relayvm.ir.expr import Constant"] = None
            return f"Constant({self.constant(value.data).loose})"
        if isinstance(value, DType):
            return repr(value.name)
        if isinstance(value, float) and not np.isfinite(value):
            return f'float("{value}")'
        return repr(value)

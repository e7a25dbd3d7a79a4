"""TVM's `Prelude`, `TensorArrayOps` and `StaticTensorArrayOps`.

A tensor array is an `Array` of the machine: a loop that hands one along writes it in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.dims import ANY, Dim
from relayvm.base.source import Source
from relayvm.compiler.infer_types import infer_types
from relayvm.ir.expr import Constructor, Expr, Function, GlobalVar
from relayvm.ir.module import Module
from relayvm.ir.prelude import PRELUDE_NAME, parse_definitions, prelude, take_in
from relayvm.ir.types import GlobalTypeVar, TypeCall
from relayvm.ir.visit import free_vars
from relayvm.ops import OPS
from relayvm.relay.module import IRModule
from relayvm.relay.static_tensor_array_text import StaticDefinitions
from relayvm.relay.tensor_array_text import (
    Definitions,
    dynamic_definitions,
    dynamic_name,
    static_name,
)

TENSOR_ARRAY_DTYPES = (
    "float32",
    "float16",
    "float64",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "int64",
)
SOURCE_NAME = "tensor_array.rly"


class Prelude:
    """The standard definitions in a module: `p.hd`, `p.map` and so on are their global variables.

    Those of tensor arrays come into the module when they are first asked for.
    """

    def __init__(self, mod: IRModule | None = None) -> None:
        self.mod = IRModule() if mod is None else mod
        self.load_prelude()

    def load_prelude(self) -> None:
        """Add the prelude to the module."""
        self.mod.take_from_std(PRELUDE_NAME)
        for name in prelude(OPS).functions:
            if name in self.mod.functions:
                setattr(self, name, self.mod.get_global_var(name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "mod":
            raise AttributeError(name)
        dtype = name.rpartition("_")[2]
        if dtype in TENSOR_ARRAY_DTYPES:
            self._ensure(name, dtype)
        if name in self.mod.functions:
            return self.mod.get_global_var(name)
        raise AttributeError(f"the prelude has no `{name}`")

    # -- Tensors of any shape ----------------------------------------------------------------------

    def get_name(self, canonical: str, dtype: str) -> str:
        """Return the name of an operation, type or constructor for a dtype."""
        return dynamic_name(canonical, dtype)

    def get_global_var(self, canonical: str, dtype: str) -> GlobalVar:
        """Return the variable of an operation for a dtype."""
        name = self.get_name(canonical, dtype)
        self._ensure(name, dtype)
        return self.mod.get_global_var(name)

    def get_type(self, canonical: str, dtype: str) -> GlobalTypeVar:
        """Return a data type for a dtype."""
        name = self.get_name(canonical, dtype)
        self._ensure(name, dtype)
        return self.mod.get_global_type_var(name)

    def get_ctor(self, ty_name: str, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the data type of this name."""
        self._ensure(ty_name, dtype)
        return self._constructor(ty_name, self.get_name(canonical, dtype))

    def get_tensor_ctor(self, canonical: str, dtype: str) -> Constructor:
        """Return a constructor of the tensors of a dtype, such as `tensor2`."""
        return self.get_ctor(self.get_type("tensor_t", dtype).name, canonical, dtype)

    # -- Tensors of one shape ----------------------------------------------------------------------

    def get_name_static(
        self, canonical: str, dtype: str, shape: Sequence[Dim], batch_dim: int | None = None
    ) -> str:
        """Return the name of an operation, type or constructor for a dtype and shape."""
        return static_name(canonical, dtype, shape, batch_dim)

    def get_global_var_static(
        self, canonical: str, dtype: str, shape: Sequence[Dim], batch_dim: int | None = None
    ) -> GlobalVar:
        """Return the variable of an operation for a dtype and shape."""
        return self.mod.get_global_var(self.get_name_static(canonical, dtype, shape, batch_dim))

    def get_type_static(self, canonical: str, dtype: str, shape: Sequence[Dim]) -> GlobalTypeVar:
        """Return a data type for a dtype and shape."""
        return self.mod.get_global_type_var(self.get_name_static(canonical, dtype, shape))

    def get_ctor_static(
        self, ty_name: str, name: str, dtype: str, shape: Sequence[Dim]
    ) -> Constructor:
        """Return a constructor of a data type for a dtype and shape."""
        type_name = self.get_name_static(ty_name, dtype, shape)
        return self._constructor(type_name, self.get_name_static(name, dtype, shape))

    def get_tensor_ctor_static(self, name: str, dtype: str, shape: Sequence[Dim]) -> Constructor:
        """Return a constructor of the tensors of a dtype and shape."""
        return self.get_ctor_static("tensor_t", name, dtype, shape)

    # -- Definitions -------------------------------------------------------------------------------

    def define(self, definitions: Definitions, replacing: bool = False) -> None:
        """Put definitions, texts by name, into the module, those that it lacks or all."""
        module = self.mod.module
        missing = {
            name: text
            for name, text in definitions.items()
            if name not in module.types and (replacing or name not in module.functions)
        }
        if missing:
            kept = {n: f for n, f in module.functions.items() if n not in missing}
            base = module.with_functions(kept)
            source = Source(SOURCE_NAME, "\n".join(missing.values()))
            self.mod.adopt(take_in(base, parse_definitions(source, OPS, base), OPS))

    def _ensure(self, name: str, dtype: str) -> None:
        module = self.mod.module
        if name in module.functions or name in module.types:
            return
        if dtype in TENSOR_ARRAY_DTYPES:
            TensorArrayOps(self, dtype).register()

    def _constructor(self, type_name: str, name: str) -> Constructor:
        for constructor in self.mod.get_type(type_name)[1:]:
            if constructor.name == name:
                assert isinstance(constructor, Constructor)
                return constructor
        raise error("unknown-constructor", f"type `{type_name}` has no constructor `{name}`")


@cache
def _dynamic_module(dtype: str) -> Module:
    text = "\n".join(dynamic_definitions(dtype).values())
    return parse_definitions(Source(SOURCE_NAME, text), OPS, Module())


class TensorArrayOps:
    """Operations on arrays of tensors of a dtype and any shape."""

    def __init__(self, prelude: Prelude, dtype: str) -> None:
        if dtype not in TENSOR_ARRAY_DTYPES:
            known = ", ".join(TENSOR_ARRAY_DTYPES)
            raise error("bad-option", f"tensor arrays are of {known}, not of `{dtype}`")
        self.prelude = prelude
        self.dtype = dtype
        self.list, self.cons, self.nil = prelude.mod.get_type("List")

    def get_name(self, canonical: str) -> str:
        """Return the name of an operation, type or constructor."""
        return self.prelude.get_name(canonical, self.dtype)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return the variable of an operation."""
        return self.prelude.get_global_var(canonical, self.dtype)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """Return the data type of the tensors."""
        return self.prelude.get_type(canonical, self.dtype)

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of the tensors, such as `tensor2`."""
        return self.prelude.get_tensor_ctor(canonical, self.dtype)

    @property
    def tensor_type_var(self) -> GlobalTypeVar:
        """The data type of the tensors."""
        return self.get_type("tensor_t")

    def register(self) -> None:
        """Put all operations into the module."""
        mod = self.prelude.mod
        mod.adopt(take_in(mod.module, _dynamic_module(self.dtype), OPS))


class StaticTensorArrayOps:
    """Operations on arrays of tensors of a dtype and shape."""

    def __init__(
        self, prelude: Prelude, dtype: str, shape: Sequence[Dim], batch_dim: int | None = None
    ) -> None:
        self.prelude = prelude
        self.dtype = dtype
        self.shape = tuple(shape)
        self.batch_dim = batch_dim
        self.list, self.cons, self.nil = prelude.mod.get_type("List")
        self._texts = StaticDefinitions(dtype, self.shape, batch_dim)

    def get_name(
        self, canonical: str, extra_shapes: Mapping[str, Sequence[Dim]] | None = None
    ) -> str:
        """Return the name of an operation, type or constructor."""
        return static_name(canonical, self.dtype, self.shape, self.batch_dim, extra_shapes)

    def get_global_var(self, canonical: str) -> GlobalVar:
        """Return the variable of an operation."""
        return self.prelude.get_global_var_static(canonical, self.dtype, self.shape, self.batch_dim)

    def get_type(self, canonical: str) -> GlobalTypeVar:
        """Return the data type of the tensors."""
        return self.prelude.get_type_static(canonical, self.dtype, self.shape)

    def get_ctor(self, canonical: str) -> Constructor:
        """Return a constructor of the tensors."""
        return self.prelude.get_ctor_static("tensor_t", canonical, self.dtype, self.shape)

    @property
    def tensor_type_var(self) -> GlobalTypeVar:
        """The data type of the tensors."""
        return self.get_type("tensor_t")

    def is_cached(self, name: str) -> bool:
        """Tell whether the module has a function of this name."""
        return name in self.prelude.mod.functions

    def define_tensor_adt(self) -> None:
        """Define the data type."""
        self.prelude.define(self._texts.adt())

    def define_tensor_array(self) -> None:
        """Define `tensor_array(n)`: n empty places."""
        self.prelude.define(self._texts.array())

    def define_tensor_take(self) -> None:
        """Define `tensor_take(t, lower, upper)`: a range of the first axis."""
        self.prelude.define(self._texts.take())

    def define_tensor_concatenate(self) -> None:
        """Define `tensor_concatenate(t, u)`: both along the first axis."""
        self.prelude.define(self._texts.concatenate())

    def define_tensor_expand_dims(self) -> None:
        """Define `tensor_expand_dims(t)`: a new first axis."""
        self.prelude.define(self._texts.expand_dims())

    def define_tensor_array_read(self) -> None:
        """Define `tensor_array_read(ta, n)`."""
        self.prelude.define(self._texts.read())

    def define_tensor_array_write(self) -> None:
        """Define `tensor_array_write(ta, n, v)`."""
        self.prelude.define(self._texts.write())

    def define_tensor_array_unstack(self) -> None:
        """Define `tensor_array_unstack(t)`: the parts along the first axis."""
        self.prelude.define(self._texts.unstack())

    def define_tensor_array_scatter(
        self, indices_shape: Sequence[Dim] | None = None, force_update: bool = False
    ) -> None:
        """Define `tensor_array_scatter(ta, indices, values)`."""
        self.prelude.define(self._texts.scatter(indices_shape), force_update)

    def define_tensor_array_split(
        self,
        value_shape: Sequence[Dim] | None = None,
        lengths_shape: Sequence[Dim] | None = None,
        force_update: bool = False,
    ) -> None:
        """Define `tensor_array_split(ta, value, lengths)`."""
        self.prelude.define(self._texts.split(value_shape, lengths_shape), force_update)

    def define_tensor_array_concat(self) -> None:
        """Define `tensor_array_concat(ta)`: all along the first axis."""
        self.prelude.define(self._texts.concat())

    def define_tensor_array_stack(self) -> None:
        """Define `tensor_array_stack(ta)`: all along a new first axis."""
        self.prelude.define(self._texts.stack())

    def define_tensor_array_gather(self) -> None:
        """Define `tensor_array_gather(ta, indices)`: some along a new first axis."""
        self.prelude.define(self._texts.gather())

    def define_tensor_get_data(self) -> None:
        """Define `tensor_get_data(t)`: the tensor itself."""
        self.prelude.define(self._texts.get_data())

    def register(self) -> None:
        """Put all operations into the module."""
        t = self._texts
        tensors = (t.adt(), t.take(), t.concatenate(), t.expand_dims(), t.get_data())
        places = (t.array(), t.read(), t.write(), t.unstack(), t.scatter(), t.split())
        self.prelude.define(
            {
                name: text
                for part in (*tensors, *places, t.concat(), t.stack(), t.gather())
                for name, text in part.items()
            }
        )


def get_tensor_array_shape(expr: Expr, dtype: str, prelude: Prelude) -> tuple[Dim, ...] | None:
    """Return the shape of the tensors of a tensor array; None where it is not known."""
    mod = IRModule.from_expr(Function(tuple(free_vars(expr)), expr))
    mod.update(prelude.mod)
    typed = infer_types(mod.module)["main"].body.checked_type
    if not isinstance(typed, TypeCall) or not typed.args:
        raise error("type-mismatch", "the expression is no tensor array")
    held = typed.args[0]
    name = held.func.name if isinstance(held, TypeCall) else getattr(held, "name", "")
    start = f"static_tensor_{dtype}_"
    if not name.startswith(start):
        return None
    parts = name.removeprefix(start).removesuffix("_t").split("_")
    return () if parts == ["scalar"] else tuple(ANY if p == "any" else int(p) for p in parts)

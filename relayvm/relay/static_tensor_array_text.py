"""The text of tensor arrays whose tensors have one shape, each with what it needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from relayvm.base.dims import ANY, Dim
from relayvm.relay.tensor_array_text import (
    TAKE,
    Definitions,
    array_text,
    concat_text,
    gather_text,
    join_text,
    match_text,
    read_text,
    scatter_text,
    split_text,
    stack_text,
    static_name,
    type_text,
    unstack_text,
    write_text,
)

VECTOR = type_text([ANY], "int32")


@dataclass(frozen=True)
class StaticDefinitions:
    """Definitions for tensors of one dtype and shape; operations that mean nothing for rank 0 are
    none.
    """

    dtype: str
    shape: tuple[Dim, ...]
    batch_dim: int | None = None

    def name(self, canonical: str, **extra: Sequence[Dim]) -> str:
        """Return the name of an operation, type or constructor."""
        return static_name(canonical, self.dtype, self.shape, self.batch_dim, extra)

    def of_shape(self, *shape: Dim) -> StaticDefinitions:
        """Return the definitions for another shape."""
        return StaticDefinitions(self.dtype, shape, self.batch_dim)

    @property
    def tensor(self) -> str:
        """The name of the data type."""
        return self.name("tensor_t")

    @property
    def constructor(self) -> str:
        """The name of its constructor that holds a tensor."""
        return self.name("tensor_constructor")

    @property
    def longer(self) -> StaticDefinitions:
        """Those for tensors with one more axis in front."""
        return self.of_shape(1 if self.batch_dim == 1 else ANY, *self.shape)

    @property
    def any_length(self) -> StaticDefinitions:
        """Those for tensors whose first axis has any size."""
        return self.of_shape(ANY, *self.shape[1:])

    # -- Tensors -----------------------------------------------------------------------------------

    def adt(self) -> Definitions:
        """Return the data type: a tensor or nothing."""
        held = type_text(self.shape, self.dtype)
        body = f"{{\n  {self.name('tensor_nil')},\n  {self.constructor}({held}),\n}}"
        return {self.tensor: f"type {self.tensor} {body}"}

    def take(self) -> Definitions:
        """Return the operation that gives a range of the first axis."""
        if not self.shape:
            return {}
        name, result = self.name("tensor_take"), self.any_length
        head = f"@{name}(%t: {self.tensor}, %lower: int32, %upper: int32) -> {result.tensor}"
        clause = f"    {self.constructor}(%x) => {result.constructor}({TAKE}),\n"
        return {**self.adt(), **result.adt(), name: match_text(head, clause)}

    def concatenate(self) -> Definitions:
        """Return the operation that joins two tensors along the first axis."""
        if not self.shape:
            return {}
        name, result, own = self.name("tensor_concatenate"), self.any_length, self.constructor
        head = f"@{name}(%t: {self.tensor}, %u: {self.tensor}) -> {result.tensor}"
        joined = f"{result.constructor}(concatenate((%x, %y), axis=0))"
        clause = f"    {own}(%x) => match? (%u) {{ {own}(%y) => {joined}, }},\n"
        return {**self.adt(), **result.adt(), name: match_text(head, clause)}

    def expand_dims(self) -> Definitions:
        """Return the operation that adds an axis in front."""
        name, result = self.name("tensor_expand_dims"), self.longer
        head = f"@{name}(%t: {self.tensor}) -> {result.tensor}"
        clause = f"    {self.constructor}(%x) => {result.constructor}(expand_dims(%x, axis=0)),\n"
        return {**self.adt(), **result.adt(), name: match_text(head, clause)}

    def get_data(self) -> Definitions:
        """Return the operation that gives the tensor itself."""
        name = self.name("tensor_get_data")
        head = f"@{name}(%t: {self.tensor}) -> {type_text(self.shape, self.dtype)}"
        clause = f"    {self.constructor}(%x) => %x,\n"
        return {**self.adt(), name: match_text(head, clause)}

    # -- Arrays ------------------------------------------------------------------------------------

    def array(self) -> Definitions:
        """Return the operation that makes an array."""
        name = self.name("tensor_array")
        return {**self.adt(), name: array_text(name, self.tensor, self.name("tensor_nil"))}

    def read(self) -> Definitions:
        """Return the operation that reads one place."""
        name = self.name("tensor_array_read")
        return {**self.adt(), name: read_text(name, self.tensor)}

    def write(self) -> Definitions:
        """Return the operation that writes one place."""
        name = self.name("tensor_array_write")
        return {**self.adt(), name: write_text(name, self.tensor)}

    def unstack(self) -> Definitions:
        """Return the operation that gives the parts of a tensor along its first axis."""
        if not self.shape:
            return {}
        name, part = self.name("tensor_array_unstack"), self.of_shape(*self.shape[1:])
        given = type_text(self.shape, self.dtype)
        return {**part.adt(), name: unstack_text(name, given, part.tensor, part.constructor)}

    def scatter(self, indices_shape: Sequence[Dim] | None = None) -> Definitions:
        """Return the operation that writes many places."""
        extra = {} if indices_shape is None else {"indices": indices_shape}
        name = self.name("tensor_array_scatter", **extra)
        indices = VECTOR if indices_shape is None else type_text(indices_shape, "int32")
        return {**self.adt(), name: scatter_text(name, self.tensor, indices)}

    def split(
        self,
        value_shape: Sequence[Dim] | None = None,
        lengths_shape: Sequence[Dim] | None = None,
    ) -> Definitions:
        """Return the operation that cuts a tensor into the places of an array."""
        if not self.shape:
            return {}
        name, result = self.name("tensor_array_split"), self.any_length
        value = self if value_shape is None else self.of_shape(*value_shape)
        lengths = VECTOR if lengths_shape is None else type_text(lengths_shape, "int32")
        take = value.name("tensor_take")
        text = split_text(name, result.tensor, value.tensor, lengths, take)
        return {**value.take(), **result.write(), name: text}

    def join(self) -> Definitions:
        """Return the operation that joins a part of an array of tensors of any length."""
        name = self.name("tensor_array_join")
        text = join_text(name, self.tensor, self.name("tensor_concatenate"))
        return {**self.concatenate(), name: text}

    def concat(self) -> Definitions:
        """Return the operation that joins all tensors of an array."""
        if not self.shape:
            return {}
        name, result = self.name("tensor_array_concat"), self.any_length
        join, nil = result.name("tensor_array_join"), result.name("tensor_nil")
        return {**result.join(), name: concat_text(name, result.tensor, nil, join)}

    def stack(self) -> Definitions:
        """Return the operation that joins all tensors along a new axis; with `batch_dim` 1 there is
        one.
        """
        name, result = self.name("tensor_array_stack"), self.longer
        expand, join = self.name("tensor_expand_dims"), result.name("tensor_array_join")
        if self.batch_dim == 1:
            head = f"def @{name}(%ta: Array[{self.tensor}]) -> {result.tensor}"
            text = f"{head} {{ @{expand}(array.get(%ta, 0)) }}"
            return {**self.expand_dims(), **result.concatenate(), name: text}
        text = stack_text(name, self.tensor, result.tensor, expand, join)
        return {**self.expand_dims(), **result.join(), name: text}

    def gather(self) -> Definitions:
        """Return the operation that stacks some places."""
        name, stack = self.name("tensor_array_gather"), self.name("tensor_array_stack")
        text = gather_text(name, self.tensor, self.longer.tensor, stack)
        return {**self.stack(), name: text}

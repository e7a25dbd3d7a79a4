"""The text of tensor arrays, by the name of what it defines: operations on arrays of tensors whose
shapes are not known, and on those of one shape.

Sequences of `n` tensors are joined two and two, which copies each element `log n` times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from relayvm.base.dims import ANY, AnyDim, Dim

Definitions = dict[str, str]

HIGHEST_RANK = 6
TAKE = 'take(%x, arange(%lower, %upper, 1, dtype="int32"), axis=0)'


def type_text(shape: Sequence[Dim], dtype: str) -> str:
    """Return a tensor type as text."""
    dims = ", ".join("?" if isinstance(d, AnyDim) else str(d) for d in shape)
    return f"Tensor[({dims}), {dtype}]" if shape else dtype


def dynamic_name(canonical: str, dtype: str) -> str:
    """Return the name of an operation, type or constructor for tensors of any shape."""
    return f"tensor_{dtype}_t" if canonical == "tensor_t" else f"{canonical}_{dtype}"


def shape_name(shape: Sequence[Dim]) -> str:
    """Return a shape as a part of a name."""
    return "_".join("any" if isinstance(d, AnyDim) else str(d) for d in shape)


def static_name(
    canonical: str,
    dtype: str,
    shape: Sequence[Dim],
    batch_dim: int | None = None,
    extra_shapes: Mapping[str, Sequence[Dim]] | None = None,
) -> str:
    """Return the name of an operation, type or constructor for tensors of one shape."""
    shapes = shape_name(shape)
    for name, extra in (extra_shapes or {}).items():
        shapes += f"_{name}_{shape_name(extra)}"
    shapes = shapes or "scalar"
    if canonical == "tensor_t":
        return f"static_tensor_{dtype}_{shapes}_t"
    batched = batch_dim == 1 and canonical not in ("tensor_constructor", "tensor_nil")
    return f"{canonical}_{dtype}_batch1_{shapes}" if batched else f"{canonical}_{dtype}_{shapes}"


# --- what both kinds share ------------------------------------------------------------------------


def array_text(name: str, tensor: str, nil: str) -> str:
    """Return the operation that makes an array of empty places."""
    return f"def @{name}(%n: int32) -> Array[{tensor}] {{ @array_fill(%n, {nil}) }}"


def read_text(name: str, tensor: str) -> str:
    """Return the operation that reads one place."""
    return f"def @{name}(%ta: Array[{tensor}], %n: int32) -> {tensor} {{ array.get(%ta, %n) }}"


def write_text(name: str, tensor: str) -> str:
    """Return the operation that gives an array with another tensor in one place."""
    return (
        f"def @{name}(%ta: Array[{tensor}], %n: int32, %v: {tensor}) -> Array[{tensor}] "
        "{ array.set(%ta, %n, %v) }"
    )


def scatter_text(name: str, tensor: str, indices: str) -> str:
    """Return the operation that writes many places."""
    array = f"Array[{tensor}]"
    return f"""
def @{name}(%ta: {array}, %indices: {indices}, %values: {array}) -> {array} {{
  let %limit = take(shape_of(%indices, dtype="int32"), 0);
  let %go = fn (%made: Array[{tensor}], %i: int32) -> Array[{tensor}] {{
    if (%i < %limit) {{
      %go(array.set(%made, take(%indices, %i), array.get(%values, %i)), %i + 1)
    }} else {{
      %made
    }}
  }};
  %go(%ta, 0)
}}"""


def split_text(name: str, tensor: str, value: str, lengths: str, take: str) -> str:
    """Return the operation that cuts a tensor into the places of an array."""
    return f"""
def @{name}(%ta: Array[{tensor}], %value: {value}, %lengths: {lengths}) -> Array[{tensor}] {{
  let %limit = take(shape_of(%lengths, dtype="int32"), 0);
  let %go = fn (%made: Array[{tensor}], %i: int32, %offset: int32) -> Array[{tensor}] {{
    if (%i < %limit) {{
      let %end = %offset + take(%lengths, %i);
      %go(array.set(%made, %i, @{take}(%value, %offset, %end)), %i + 1, %end)
    }} else {{
      %made
    }}
  }};
  %go(%ta, 0, 0)
}}"""


def join_text(name: str, tensor: str, concatenate: str) -> str:
    """Return the operation that joins the tensors of a part of an array, which is not empty."""
    return f"""
def @{name}(%ta: Array[{tensor}], %begin: int32, %end: int32) -> {tensor} {{
  if (%end - %begin < 2) {{
    array.get(%ta, %begin)
  }} else {{
    let %middle = %begin + (%end - %begin) / 2;
    @{concatenate}(@{name}(%ta, %begin, %middle), @{name}(%ta, %middle, %end))
  }}
}}"""


def concat_text(name: str, tensor: str, nil: str, join: str) -> str:
    """Return the operation that joins all tensors of an array."""
    return f"""
def @{name}(%ta: Array[{tensor}]) -> {tensor} {{
  let %n = array.length(%ta);
  if (%n == 0) {{ {nil} }} else {{ @{join}(%ta, 0, %n) }}
}}"""


def stack_text(name: str, tensor: str, result: str, expand: str, join: str) -> str:
    """Return the operation that joins all tensors along a new axis."""
    return f"""
def @{name}(%ta: Array[{tensor}]) -> {result} {{
  @{join}(@array_map(@{expand}, %ta), 0, array.length(%ta))
}}"""


def gather_text(name: str, tensor: str, result: str, stack: str) -> str:
    """Return the operation that stacks some places."""
    return f"""
def @{name}(%ta: Array[{tensor}], %indices: Tensor[(?), int32]) -> {result} {{
  let %limit = take(shape_of(%indices, dtype="int32"), 0);
  let %read = fn (%i: int32) -> {tensor} {{ array.get(%ta, take(%indices, %i)) }};
  @{stack}(@array_build(%limit, %read))
}}"""


def unstack_text(name: str, given: str, tensor: str, constructor: str) -> str:
    """Return the operation that gives the parts of a tensor along its first axis as an array."""
    return f"""
def @{name}(%t: {given}) -> Array[{tensor}] {{
  let %limit = take(shape_of(%t, dtype="int32"), 0);
  @array_build(%limit, fn (%i: int32) -> {tensor} {{ {constructor}(take(%t, %i, axis=0)) }})
}}"""


# --- tensors of any shape -------------------------------------------------------------------------


def dynamic_definitions(dtype: str) -> Definitions:
    """Return everything for tensors of one dtype and any shape up to rank 6."""

    def n(canonical: str) -> str:
        return dynamic_name(canonical, dtype)

    tensor, nil = n("tensor_t"), n("tensor_nil")
    ranks = range(HIGHEST_RANK + 1)
    anything = [type_text([ANY] * rank, dtype) for rank in ranks]
    fields = "".join(f"  {n(f'tensor{rank}')}({anything[rank]}),\n" for rank in ranks)
    made = {
        tensor: f"type {tensor} {{\n  {nil},\n{fields}}}",
        n("tensor_take"): _take_clauses(n, range(1, HIGHEST_RANK + 1)),
        n("tensor_expand_dims"): _expand_clauses(n, range(HIGHEST_RANK)),
        n("tensor_concatenate"): _concatenate_clauses(n, range(1, HIGHEST_RANK + 1)),
        n("tensor_array"): array_text(n("tensor_array"), tensor, nil),
        n("tensor_array_read"): read_text(n("tensor_array_read"), tensor),
        n("tensor_array_write"): write_text(n("tensor_array_write"), tensor),
    }
    for rank in range(1, HIGHEST_RANK + 1):
        name = n(f"tensor_array_unstack_tensor{rank}")
        made[name] = unstack_text(name, anything[rank], tensor, n(f"tensor{rank - 1}"))
    vector = type_text([ANY], "int32")
    scatter, split = n("tensor_array_scatter"), n("tensor_array_split")
    made[scatter] = scatter_text(scatter, tensor, vector)
    made[split] = split_text(split, tensor, tensor, vector, n("tensor_take"))
    join, concat, stack = (n(f"tensor_array_{op}") for op in ("join", "concat", "stack"))
    made[join] = join_text(join, tensor, n("tensor_concatenate"))
    made[concat] = concat_text(concat, tensor, nil, join)
    made[stack] = stack_text(stack, tensor, tensor, n("tensor_expand_dims"), join)
    gather = n("tensor_array_gather")
    made[gather] = gather_text(gather, tensor, tensor, stack)
    return made


def _take_clauses(n: Callable[[str], str], ranks: range) -> str:
    name, tensor = n("tensor_take"), n("tensor_t")
    clauses = ""
    for rank in ranks:
        constructor = n(f"tensor{rank}")
        clauses += f"    {constructor}(%x) => {constructor}({TAKE}),\n"
    return match_text(f"@{name}(%t: {tensor}, %lower: int32, %upper: int32) -> {tensor}", clauses)


def _expand_clauses(n: Callable[[str], str], ranks: range) -> str:
    name, tensor = n("tensor_expand_dims"), n("tensor_t")
    clauses = ""
    for rank in ranks:
        constructor, result = n(f"tensor{rank}"), n(f"tensor{rank + 1}")
        clauses += f"    {constructor}(%x) => {result}(expand_dims(%x, axis=0)),\n"
    return match_text(f"@{name}(%t: {tensor}) -> {tensor}", clauses)


def _concatenate_clauses(n: Callable[[str], str], ranks: range) -> str:
    name, tensor = n("tensor_concatenate"), n("tensor_t")
    clauses = ""
    for rank in ranks:
        constructor = n(f"tensor{rank}")
        joined = f"{constructor}(concatenate((%x, %y), axis=0))"
        inner = f"match? (%u) {{ {constructor}(%y) => {joined}, }}"
        clauses += f"    {constructor}(%x) => {inner},\n"
    return match_text(f"@{name}(%t: {tensor}, %u: {tensor}) -> {tensor}", clauses)


def match_text(head: str, clauses: str) -> str:
    """Return an operation that looks at its operand `%t`, of some constructors only."""
    return f"def {head} {{\n  match? (%t) {{\n{clauses}  }}\n}}"

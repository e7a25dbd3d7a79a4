"""The meaning of a nest: runs it on numpy arrays, with the bits that generated code has.

A nest is turned into Python source, one function a phase; scalars are numpy scalars, vectors are
numpy arrays. Every access is checked. Slow, and the oracle of schedules and code generators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from relayvm.base.abi import Access, reason_text
from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import INT64, NARROW
from relayvm.kernels import loops as n
from relayvm.kernels.scalar_ops import SCALAR_OPS, cast_array

Array = np.ndarray[Any, Any]
_POISON = 0xA5


class IndexTrap(Exception):
    """The nest trapped: a loaded index is outside its axis, or another row of `TRAP_REASONS`."""


def interpret(
    nest: n.Nest,
    arrays: Sequence[Array],
    dims: Mapping[str, int],
    slices: int | None = 1,
    in_place: Mapping[str, str] | None = None,
) -> tuple[Array, ...]:
    """Return the outputs of a nest for input arrays and the values of its dims.

    Each phase runs in `slices` slices, the last one first: results must not depend on it. None
    makes a slice of each chain and raises AssertionError where two chains of a phase could race:
    one writes an element that the other reads or writes. `in_place` names the input in whose memory
    an output is written. Raises IndexTrap, and AssertionError where private memory is read
    before the same chain of the phase has written it.
    """
    sizes = Evaluation(dims)
    buffers: dict[str, Array] = {}
    for buffer, array in zip(nest.inputs, arrays):
        buffers[buffer.name] = np.asarray(array, dtype=buffer.dtype.numpy)
    in_place = in_place or {}
    for name, source in in_place.items():
        buffers[name] = buffers[source] = buffers[source].copy()
    for buffer in (*nest.outputs, *nest.scratch, *nest.private):
        if buffer.name in in_place:
            continue
        shape = tuple(sizes.value(e) for e in buffer.shape)
        memory = np.empty(shape, buffer.dtype.numpy)
        memory.reshape(-1).view(np.uint8).fill(_POISON)
        buffers[buffer.name] = memory
        if buffer.role == "private":
            buffers[_written(buffer)] = np.zeros(shape, np.bool_)
    races = _Races(nest, buffers, in_place) if slices is None else None
    with np.errstate(all="ignore"):
        for phase, run in zip(nest.phases, _compiled(nest, races)):
            extent = sizes.value(phase.extent)
            chain = max(1, sizes.value(phase.chain))
            chains = -(-extent // chain)
            parts = chains if slices is None else slices
            shares = [chains * k // parts for k in range(parts + 1)] if parts else [0]
            edges = [min(share * chain, extent) for share in shares]
            for k in reversed(range(parts)):
                if races is not None:
                    races.begin(k, parts)
                run(buffers, dims, edges[k], edges[k + 1])
    return tuple(buffers[b.name] for b in nest.outputs)


class Evaluation:
    """Values of index expressions over dims alone."""

    def __init__(self, dims: Mapping[str, int]) -> None:
        self.dims = dims

    def value(self, expr: n.Expr) -> int:
        """Return the value of an expression without loads and variables."""
        namespace = {**_NAMESPACE, "D": self.dims}
        return int(eval(_Source().expr(expr), namespace))


class _Races:
    """Notes which round of a phase reads and writes each element, and raises where two meet."""

    NONE, MANY = -1, -2

    def __init__(
        self, nest: n.Nest, buffers: Mapping[str, Array], in_place: Mapping[str, str]
    ) -> None:
        self.round = 0
        # By identity of the arrays: what generated functions get. Inputs are not written.
        self.notes: dict[int, tuple[str, Array, Array]] = {}
        for buffer in (*nest.outputs, *nest.scratch):
            size = buffers[buffer.name].size
            row = (buffer.name, np.empty(size, np.int64), np.empty(size, np.int64))
            self.notes[id(buffers[buffer.name])] = row
            if buffer.name in in_place:
                self.notes[id(buffers[in_place[buffer.name]])] = row

    def begin(self, number: int, count: int) -> None:
        """Begin a round; the last one, which runs first, forgets the phase before."""
        self.round = number
        if number == count - 1:
            for _, writers, readers in self.notes.values():
                writers.fill(self.NONE)
                readers.fill(self.NONE)

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions of memory that take notes."""

        def load(array: Array, indices: Any, strided: bool, mask: bool = True) -> Any:
            self.read(array, indices, 1, None if mask else False)
            return _load(array, indices, strided, mask)

        def load_lanes(array: Array, indices: Any, lanes: int, strided: bool, mask: Any) -> Any:
            self.read(array, indices, lanes, mask)
            return _load_lanes(array, indices, lanes, strided, mask)

        def gather(array: Array, indices: Any, lanes: int, strided: bool, mask: Any) -> Any:
            self.read(array, indices, lanes, mask)
            return _gather(array, indices, lanes, strided, mask)

        def store(array: Array, indices: Any, lanes: int, value: Any, mask: Any) -> None:
            _store(array, indices, lanes, value, mask)
            self.write(array, indices, lanes, mask)

        return {"_load": load, "_load_lanes": load_lanes, "_gather": gather, "_store": store}

    def read(self, array: Array, indices: Any, lanes: int, mask: Any) -> None:
        """Note that this round reads elements."""
        if id(array) not in self.notes:
            return
        name, writers, readers = self.notes[id(array)]
        at = _offsets(array, indices, lanes, mask)
        self._require_mine(name, writers[at])
        old = readers[at]
        readers[at] = np.where((old == self.NONE) | (old == self.round), self.round, self.MANY)

    def write(self, array: Array, indices: Any, lanes: int, mask: Any) -> None:
        """Note that this round writes elements."""
        if id(array) not in self.notes:
            return
        name, writers, readers = self.notes[id(array)]
        at = _offsets(array, indices, lanes, mask)
        self._require_mine(name, writers[at])
        self._require_mine(name, readers[at])
        writers[at] = self.round

    def _require_mine(self, name: str, owners: Array) -> None:
        others = owners[(owners != self.NONE) & (owners != self.round)]
        if others.size:
            other = "others" if others[0] == self.MANY else f"round {others[0]}"
            raise AssertionError(f"round {self.round} of a phase and {other} meet in `{name}`")


def _offsets(array: Array, indices: tuple[Any, ...], lanes: int, mask: Any) -> Array:
    """Return the row-major offsets of the elements of a dense buffer that an access touches."""
    shape = array.shape if len(indices) == array.ndim else (array.size,)
    at: Any = np.int64(0)
    for index, extent in zip(indices, shape):
        at = at * extent + index
    if np.ndim(at) == 0:
        at = at + np.arange(lanes)
    return np.asarray(at if mask is None else at[np.broadcast_to(mask, at.shape)], np.int64)


def _compiled(nest: n.Nest, races: _Races | None = None) -> list[Callable[..., None]]:
    functions = []
    memory = races.functions() if races is not None else {}
    for phase in nest.phases:
        source = _Source()
        text = source.phase(phase, nest.private)
        namespace: dict[str, Any] = {**_NAMESPACE, **memory, **source.constants}
        exec(compile(text, f"<nest {nest.name}>", "exec"), namespace)
        functions.append(namespace["phase"])
    return functions


def _written(buffer: n.Buffer) -> str:
    """Return what the flags of a private buffer are called: which elements hold a value."""
    return f"{buffer.name} written"


def _held(value: Any, written: Any, mask: Any = None) -> Any:
    held = written if mask is None else np.logical_or(written, np.logical_not(mask))
    assert np.all(held), "private memory is read before it is written"
    return value


def _check(index: int, extent: int) -> int:
    if not 0 <= index < extent:
        raise AssertionError(f"index {index} is outside an axis of {extent}")
    return index


def _position(array: Array, indices: tuple[int, ...], strided: bool) -> tuple[int, ...]:
    shape = array.shape if len(indices) == array.ndim else (array.size,)
    if strided:
        indices = tuple(0 if e == 1 else i for i, e in zip(indices, shape))
    return tuple(_check(int(i), e) for i, e in zip(indices, shape))


def _view(array: Array, indices: tuple[Any, ...]) -> Array:
    return array if len(indices) == array.ndim else array.reshape(-1)


def _load(array: Array, indices: tuple[int, ...], strided: bool, mask: bool = True) -> Any:
    if not mask:
        return array.dtype.type(0)
    return _view(array, indices)[_position(array, indices, strided)]


def _load_lanes(
    array: Array, indices: tuple[int, ...], lanes: int, strided: bool, mask: Array | None
) -> Array:
    result = np.zeros(lanes, array.dtype)
    view = _view(array, indices)
    if mask is None and lanes and not strided:
        at = _position(array, indices, False)
        _check(at[-1] + lanes - 1, view.shape[-1])
        row = view[at[:-1]]
        return np.array(row[at[-1] : at[-1] + lanes])
    for lane in range(lanes):
        if mask is None or mask[lane]:
            here = (*indices[:-1], indices[-1] + lane)
            result[lane] = view[_position(array, here, strided)]
    return result


def _gather(
    array: Array, indices: tuple[Array, ...], lanes: int, strided: bool, mask: Array | None
) -> Array:
    result = np.zeros(lanes, array.dtype)
    view = _view(array, indices)
    for lane in range(lanes):
        if mask is None or mask[lane]:
            here = tuple(int(i[lane]) for i in indices)
            result[lane] = view[_position(array, here, strided)]
    return result


def _store(array: Array, indices: tuple[int, ...], lanes: int, value: Any, mask: Any) -> None:
    view = _view(array, indices)
    if lanes == 1:
        if mask is None or mask:
            view[_position(array, indices, False)] = value
        return
    for lane in range(lanes):
        if mask is None or mask[lane]:
            here = (*indices[:-1], indices[-1] + lane)
            view[_position(array, here, False)] = value[lane]


def _index(
    value: int,
    extent: int,
    mode: str,
    reason: str = "index",
    told: Callable[[], tuple[Any, Any]] | None = None,
) -> int:
    if extent < 1 or (mode == "trap" and not 0 <= value < extent):
        raise IndexTrap(reason_text(reason, *(told() if told else (value, extent))))
    if mode == "wrap":
        return int(value) % int(extent)
    return min(max(int(value), 0), int(extent) - 1)


def _tree(op: str, vectors: tuple[Array, ...]) -> Any:
    results = []
    for vector in vectors:
        while len(vector) > 1:
            half = len(vector) // 2
            vector = SCALAR_OPS[op](vector[:half], vector[half:])
        results.append(vector[0])
    return results[0] if len(results) == 1 else np.array(results)


def _dot(acc: Any, a: Array, b: Array, lanes: int) -> Any:
    products = a.astype(np.int64) * b.astype(np.int64)
    sums = products.reshape(lanes, -1).sum(axis=1) + acc
    return sums.astype(np.int32) if lanes > 1 else sums.astype(np.int32)[0]


def _floordiv(a: int, b: int) -> int:
    return int(a) // int(b) if b else 0


def _floormod(a: int, b: int) -> int:
    return int(a) % int(b) if b else 0


def _call(name: str, *args: Any) -> Any:
    return SCALAR_OPS[name](*args)[()]


def _cast(value: Any, dtype: Any) -> Any:
    return cast_array(value, dtype)[()]


def _mask(count: int, lanes: int) -> Array:
    return np.arange(lanes) < count


def _ramp(base: int, stride: int, lanes: int) -> Array:
    return base + stride * np.arange(lanes, dtype=np.int64)


_NAMESPACE: dict[str, Any] = {
    "np": np,
    "_held": _held,
    "_load": _load,
    "_load_lanes": _load_lanes,
    "_gather": _gather,
    "_store": _store,
    "_index": _index,
    "_tree": _tree,
    "_dot": _dot,
    "_floordiv": _floordiv,
    "_floormod": _floormod,
    "_call": _call,
    "_cast": _cast,
    "_mask": _mask,
    "_ramp": _ramp,
}

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
}

_INDEX_FUNCTIONS = {
    "floor_divide": "_floordiv",
    "floor_mod": "_floormod",
    "minimum": "min",
    "maximum": "max",
}


class _Source:
    """Writes Python text; literals that are not int64 become named constants."""

    def __init__(self) -> None:
        self.constants: dict[str, Any] = {}
        self.lines: list[str] = []
        self.depth = 1

    def phase(self, phase: n.Phase, private: tuple[n.Buffer, ...] = ()) -> str:
        """Return the text of the function of one phase."""
        self.lines = ["def phase(B, D, begin, end):"]
        self.line(f"for {phase.var.name} in range(begin, end):")
        if private:
            self.line(f"    if {phase.var.name} % max(1, {self.expr(phase.chain)}) == 0:")
            for buffer in private:
                self.line(f"        B[{_written(buffer)!r}][...] = False")
        self.block(phase.body)
        return "\n".join(self.lines)

    def line(self, text: str) -> None:
        """Add one line at the current depth."""
        self.lines.append("    " * self.depth + text)

    def block(self, body: tuple[n.Stmt, ...]) -> None:
        """Add an indented block."""
        self.depth += 1
        for stmt in body:
            self.stmt(stmt)
        if not body:
            self.line("pass")
        self.depth -= 1

    def stmt(self, stmt: n.Stmt) -> None:
        """Add one statement."""
        match stmt:
            case n.For(var, begin, end, step, body):
                edges = f"{self.expr(begin)}, {self.expr(end)}, {step}"
                self.line(f"for {var.name} in range({edges}):")
                if stmt.condition is not None:
                    self.line(f"    if not {self.expr(stmt.condition)}: break")
                self.block(body)
            case n.If(condition, then, otherwise):
                self.line(f"if {self.expr(condition)}:")
                self.block(then)
                if otherwise:
                    self.line("else:")
                    self.block(otherwise)
            case n.Store(buffer, indices, value, mask):
                masked = self.expr(mask) if mask is not None else "None"
                at, lanes = self.tuple(indices), value.lanes
                text = self.expr(value)
                self.line(f"_store(B[{buffer.name!r}], {at}, {lanes}, {text}, {masked})")
                if buffer.role == "private":
                    flags = f"np.ones({lanes}, np.bool_)" if lanes > 1 else "True"
                    self.line(f"_store(B[{_written(buffer)!r}], {at}, {lanes}, {flags}, {masked})")
            case n.Prefetch():
                self.line("pass")
            case n.TileStore(tile, index, value):
                self.line(f"{tile.name}[{self.expr(index)}] = {self.expr(value)}")
            case n.Let(var, value):
                self.line(f"{var.name} = {self.expr(value)}")
            case n.Declare(tile):
                self.line(f"{tile.name} = [None] * {tile.size}")
            case _:
                assert_never(stmt)

    def tuple(self, exprs: tuple[n.Expr, ...]) -> str:
        """Return the text of a tuple of expressions."""
        return "(" + "".join(self.expr(e) + ", " for e in exprs) + ")"

    def expr(self, expr: n.Expr) -> str:
        """Return the text of one expression."""
        match expr:
            case n.Const(value, dtype):
                return str(int(value)) if dtype == INT64 else self.constant(dtype.array(value)[()])
            case n.Var(name):
                return name
            case n.DimRef(name):
                return f"D[{name!r}]"
            case n.Call():
                return self.call(expr)
            case n.Cast(value, dtype):
                inner = self.expr(value)
                if value.dtype == INT64 and value.lanes == 1:
                    inner = f"np.int64({inner})"
                return f"_cast({inner}, {self.constant(dtype)})"
            case n.Select(condition, a, b, _, lanes):
                test, yes, no = (self.expr(e) for e in (condition, a, b))
                if lanes == 1:
                    return f"({yes} if {test} else {no})"
                return f"np.where({test}, {yes}, {no})"
            case n.Broadcast(value, lanes, dtype):
                return f"np.full({lanes}, {self.expr(value)}, {self.constant(dtype.numpy)})"
            case n.Ramp(base, stride, lanes):
                return f"_ramp({self.expr(base)}, {self.expr(stride)}, {lanes})"
            case n.Mask(count, lanes):
                return f"_mask({self.expr(count)}, {lanes})"
            case n.Index(value, extent, mode, reason, told):
                parts = [self.expr(value), self.expr(extent), repr(mode)]
                if told is not None:
                    parts += [repr(reason), f"lambda: {self.tuple(told)}"]
                return f"_index({', '.join(parts)})"
            case n.Load() | n.Gather():
                return self.load(expr)
            case n.TileLoad(tile, index):
                return f"{tile.name}[{self.expr(index)}]"
            case n.Apart(output, source):
                return f"(B[{output.name!r}] is not B[{source.name!r}])"
            case n.Tree(op, vectors):
                return f"_tree({op!r}, {self.tuple(vectors)})"
            case n.Dot(acc, a, b, lanes):
                return f"_dot({self.expr(acc)}, {self.expr(a)}, {self.expr(b)}, {lanes})"
            case n.Shuffle(a, b, picks):
                both = f"np.concatenate(({self.expr(a)}, {self.expr(b)}))"
                return f"{both}[{list(picks)}]"
            case n.Lane(vector, number):
                return f"{self.expr(vector)}[{number}]"
            case _:
                assert_never(expr)

    def load(self, expr: n.Load | n.Gather) -> str:
        """Return the text of a memory read."""
        text = self.read(expr, expr.buffer.name)
        if expr.buffer.role != "private":
            return text
        mask = f", {self.expr(expr.mask)}" if expr.mask is not None else ""
        return f"_held({text}, {self.read(expr, _written(expr.buffer))}{mask})"

    def read(self, expr: n.Load | n.Gather, name: str) -> str:
        """Return the text of a read of the array of a name."""
        at = f"B[{name!r}], {self.tuple(expr.indices)}"
        strided = expr.buffer.access is Access.STRIDED
        mask = self.expr(expr.mask) if expr.mask is not None else None
        if isinstance(expr, n.Gather):
            return f"_gather({at}, {expr.lanes}, {strided}, {mask})"
        if expr.lanes > 1:
            return f"_load_lanes({at}, {expr.lanes}, {strided}, {mask})"
        return f"_load({at}, {strided}{', ' + mask if mask else ''})"

    def call(self, expr: n.Call) -> str:
        """Return the text of a scalar operator; simple ones are numpy's own."""
        args = [self.expr(a) for a in expr.args]
        dtype = expr.args[0].dtype
        if expr.name in _INFIX and not dtype.is_bool and dtype not in NARROW:
            return f"({args[0]} {_INFIX[expr.name]} {args[1]})"
        if dtype == INT64 and expr.lanes == 1:
            if expr.name in _INDEX_FUNCTIONS:
                return f"{_INDEX_FUNCTIONS[expr.name]}({', '.join(args)})"
            args = [f"np.int64({a})" for a in args]
        if expr.name == "logical_and" and dtype.is_bool:
            return f"({args[0]} & {args[1]})"
        return f"_call({expr.name!r}, {', '.join(args)})"

    def constant(self, value: Any) -> str:
        """Return the name of a constant."""
        name = f"C{len(self.constants)}"
        self.constants[name] = value
        return name

"""Nests as text that `parser.py` reads back: the portable form of a kernel in files and caches."""

from __future__ import annotations

from relayvm.base.abi import Access
from relayvm.base.diagnostics import assert_never
from relayvm.base.dtypes import INT64
from relayvm.kernels import loops as n

INFIX = {"add": "+", "subtract": "-", "multiply": "*"}


def print_nest(nest: n.Nest) -> str:
    """Return the text of a nest; equal nests give equal text."""
    lines = [f"nest @{nest.name} {{"]
    if nest.dims:
        lines.append("  dims " + ", ".join(f"${d}" for d in nest.dims))
    for buffer in nest.buffers:
        shape = ", ".join(print_expr(e) for e in buffer.shape)
        access = "" if buffer.access is Access.DENSE else f" {buffer.access.name.lower()}"
        lines.append(f"  {buffer.role} {buffer.name}: {buffer.dtype}[{shape}]{access}")
    if nest.joined:
        lines.append("  joined " + ", ".join(print_expr(e) for e in nest.joined))
    for phase in nest.phases:
        chain = f" chain {print_expr(phase.chain)}" if phase.chain != n.const(1) else ""
        lines.append(f"  phase {phase.var.name} < {print_expr(phase.extent)}{chain} {{")
        _block(phase.body, "    ", lines)
        lines.append("  }")
    lines.append("}")
    return "\n".join(lines) + "\n"


def _block(body: tuple[n.Stmt, ...], indent: str, lines: list[str]) -> None:
    for stmt in body:
        match stmt:
            case n.For():
                word = "unroll" if stmt.kind == "unroll" else "for"
                step = f" step {stmt.step}" if stmt.step != 1 else ""
                edges = f"{print_expr(stmt.begin)} to {print_expr(stmt.end)}{step}"
                if stmt.condition is not None:
                    edges += f" while {print_expr(stmt.condition)}"
                lines.append(f"{indent}{word} {stmt.var.name} = {edges} {{")
                _block(stmt.body, indent + "  ", lines)
                lines.append(indent + "}")
            case n.If():
                lines.append(f"{indent}if {print_expr(stmt.condition)} {{")
                _block(stmt.then, indent + "  ", lines)
                if stmt.otherwise:
                    lines.append(indent + "} else {")
                    _block(stmt.otherwise, indent + "  ", lines)
                lines.append(indent + "}")
            case n.Store():
                place = _access(stmt.buffer, stmt.indices, 1, stmt.mask)
                lines.append(f"{indent}{place} = {print_expr(stmt.value)}")
            case n.Prefetch():
                lines.append(f"{indent}prefetch {_access(stmt.buffer, stmt.indices, 1, None)}")
            case n.TileStore():
                place = f"{stmt.tile.name}[{print_expr(stmt.index)}]"
                lines.append(f"{indent}{place} = {print_expr(stmt.value)}")
            case n.Let():
                lines.append(f"{indent}let {stmt.var.name} = {print_expr(stmt.value)}")
            case n.Declare():
                tile = stmt.tile
                lines.append(f"{indent}tile {tile.name}: {tile.dtype} x {tile.lanes} [{tile.size}]")
            case _:
                assert_never(stmt)


def print_expr(expr: n.Expr) -> str:
    """Return the text of one expression."""
    match expr:
        case n.Const(value, dtype):
            if dtype == INT64:
                return str(int(value))
            return f"{dtype}({float(value)!r})" if dtype.is_real else f"{dtype}({int(value)})"
        case n.Var(name):
            return name
        case n.DimRef(name):
            return f"${name}"
        case n.Call(name, args):
            texts = [print_expr(a) for a in args]
            if name in INFIX:
                return f"({texts[0]} {INFIX[name]} {texts[1]})"
            return f"{name}({', '.join(texts)})"
        case n.Cast(value, dtype):
            return f"cast({dtype}, {print_expr(value)})"
        case n.Select(condition, a, b):
            return f"select({print_expr(condition)}, {print_expr(a)}, {print_expr(b)})"
        case n.Broadcast(value, lanes):
            return f"broadcast({print_expr(value)}, {lanes})"
        case n.Ramp(base, stride, lanes):
            return f"ramp({print_expr(base)}, {print_expr(stride)}, {lanes})"
        case n.Mask(count, lanes):
            return f"mask({print_expr(count)}, {lanes})"
        case n.Index(value, extent, mode, reason, told):
            parts = [mode, print_expr(value), print_expr(extent)]
            if told is not None:
                parts += [reason, *map(print_expr, told)]
            return f"index({', '.join(parts)})"
        case n.Load(buffer, indices, lanes, mask):
            return _access(buffer, indices, lanes, mask)
        case n.Gather(buffer, indices, lanes, mask):
            return f"gather({_access(buffer, indices, lanes, mask)})"
        case n.TileLoad(tile, index):
            return f"{tile.name}[{print_expr(index)}]"
        case n.Apart(output, source):
            return f"apart({output.name}, {source.name})"
        case n.Tree(op, vectors):
            return f"tree({op}, {', '.join(print_expr(v) for v in vectors)})"
        case n.Dot(acc, a, b):
            return f"dot({print_expr(acc)}, {print_expr(a)}, {print_expr(b)})"
        case n.Shuffle(a, b, picks):
            places = ", ".join(map(str, picks))
            return f"shuffle({print_expr(a)}, {print_expr(b)}, {places})"
        case n.Lane(vector, number):
            return f"lane({print_expr(vector)}, {number})"
        case _:
            assert_never(expr)


def _access(buffer: n.Buffer, indices: tuple[n.Expr, ...], lanes: int, mask: n.Expr | None) -> str:
    text = f"{buffer.name}[{', '.join(print_expr(i) for i in indices)}]"
    if lanes > 1:
        text += f":{lanes}"
    return text if mask is None else f"{text}?{print_expr(mask)}"

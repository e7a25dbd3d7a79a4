"""Long rounds of a phase cut into chains of short ones, between which a run can be ended.

All statements of a round are laid on a line, each as long as it takes at most, and each part of the
line is a round of a chain. A loop that is cut runs in each round what lies in that part of the
line, other statements run where they begin. What tiles hold is kept in private memory where a part
ends between their statements. So the order of all operations, and their bits, stay as they were.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from relayvm.base.dtypes import BOOL, INT64
from relayvm.kernels import loops as n
from relayvm.kernels.index import simplify as s
from relayvm.kernels.index.bounds import ensure_bounds
from relayvm.kernels.index.prover import Prover, is_stable, variables_in
from relayvm.kernels.schedules.emit import Names
from relayvm.kernels.schedules.lengths import Lengths
from relayvm.kernels.schedules.renaming import Renaming, has_index, used_names

# Vector instructions of one part, a fraction of a millisecond; and of a round that stays whole.
PART = 1 << 20
MOST = 1 << 23
# Loops of less are not cut.
SHORT = 1 << 22
# Loops of no more rounds are entered in each part: that takes less than to find where.
FEW = 64

Body = tuple[n.Stmt, ...]


def cut_rounds(names: Names, nest: n.Nest) -> n.Nest:
    """Return the nest with long rounds of its phases cut, and the private memory that this takes.

    Chains stay as they are, and so do rounds whose length is not known before the run, and phases
    with an access that is not proved inside its buffer once they are cut.
    """
    phases, private = list[n.Phase](), list(nest.private)
    for phase in nest.phases:
        kept: list[n.Buffer] = []
        cut = _cut(names, phase, kept)
        if cut is not None and _is_proved(nest, cut):
            phases.append(cut)
            private += kept
        else:
            phases.append(phase)
    return replace(nest, phases=tuple(phases), private=tuple(private))


def _is_proved(nest: n.Nest, phase: n.Phase) -> bool:
    """Return whether a phase needs no check of an access."""
    alone = replace(nest, phases=(phase,))
    return ensure_bounds(alone) == alone


def _cut(names: Names, phase: n.Phase, private: list[n.Buffer]) -> n.Phase | None:
    if phase.chain != n.const(1) or phase.extent == n.const(0):
        return None
    lengths = Lengths(phase)
    if lengths.whole is None or lengths.whole <= MOST:
        return None
    chain = n.const(lengths.whole // PART + 1)
    extent = s.mul(phase.extent, chain)
    number, part, low, high = map(names.var, ("b", "part", "lo", "hi"))
    which = n.const(0) if phase.extent == n.const(1) else s.floordiv(number, chain)
    prover = Prover()
    prover.add_range(number, n.const(0), extent)
    if not prover.in_range(which, phase.extent, 1):
        which = n.Index(which, phase.extent, "clip")
    first = s.mul(part, n.const(PART))
    cut = _Cutter(names, lengths, low, high, private).block(phase.body, n.const(0))
    body: Body = (
        n.Let(phase.var, which),
        n.Let(part, s.sub(number, s.mul(which, chain))),
        n.Let(low, first),
        n.Let(high, s.add(first, n.const(PART))),
        *cut,
    )
    return n.Phase(number, extent, body, chain)


@dataclass
class _Group:
    """Statements one after the other that begin at one place of the line: one that is cut, or some
    that are not.
    """

    body: list[n.Stmt]
    is_cut: bool
    begin: n.Expr
    used: set[str] = field(default_factory=set)


@dataclass
class _Cutter:
    """Rewrites the statements of one phase for the part of the line from `low` to `high`."""

    names: Names
    lengths: Lengths
    low: n.Var
    high: n.Var
    private: list[n.Buffer]
    renaming: Renaming = field(default_factory=Renaming)
    # Conditions of branches that are cut, by the identities of these.
    conditions: dict[int, n.Var] = field(default_factory=dict)

    def block(self, body: Body, begin: n.Expr) -> list[n.Stmt]:
        """Return the statements of a block that lies on the line from `begin` on."""
        groups, end = self._groups(body, begin)
        tiles = [stmt.tile for stmt in body if isinstance(stmt, n.Declare)]
        kept = [tile for tile in tiles if _is_kept(tile, groups)]
        cleared = [t for t in kept if not (groups and _sets(groups[0], t))]
        inside: list[n.Stmt] = []
        for number, group in enumerate(groups):
            if group.is_cut:
                inside += self._cut(group.body[0], begin=group.begin)
                continue
            later = set[str]().union(*(g.used for g in groups[number + 1 :]))
            own = [t for t in tiles if t not in kept and t.name in group.used]
            spilled = self._group(group, own, later, inside)
            kept += spilled
            cleared += spilled
        return self._keeping(kept, cleared, inside, begin, end)

    def _groups(self, body: Body, begin: n.Expr) -> tuple[list[_Group], n.Expr]:
        groups: list[_Group] = []
        end = begin
        for stmt in body:
            if isinstance(stmt, n.Declare):
                continue
            is_cut = self._is_cut(stmt)
            if isinstance(stmt, n.If) and is_cut and not _is_index(stmt.condition):
                named = n.Let(self.names.var("test", BOOL), stmt.condition)
                self.conditions[id(stmt)] = named.var
                _put(groups, named, False, end)
            _put(groups, stmt, is_cut, end)
            if id(stmt) in self.conditions:
                groups[-1].used.add(self.conditions[id(stmt)].name)
            end = s.add(end, n.const(self.lengths.of(stmt)))
        return groups, s.add(end, n.const(1))

    def _is_cut(self, stmt: n.Stmt) -> bool:
        return isinstance(stmt, (n.For, n.If)) and self.lengths.of(stmt) > SHORT

    def _group(
        self, group: _Group, own: list[n.Tile], later: set[str], result: list[n.Stmt]
    ) -> list[n.Tile]:
        """Emit statements that are not cut; return tiles for what later ones need of them.

        What only makes indices is computed in every round.
        """
        body: list[n.Stmt] = [n.Declare(tile) for tile in own]
        spilled: list[n.Tile] = []
        after: list[n.Stmt] = []
        inner: set[n.Var] = set()
        new: dict[n.Var, n.Expr] = {}
        for old in group.body:
            stmt = self.renaming.stmt(old)
            if not isinstance(stmt, n.Let):
                body.append(stmt)
                continue
            if _is_index(stmt.value) and not variables_in(stmt.value) & inner:
                result.append(stmt)
                continue
            inner.add(stmt.var)
            body.append(stmt)
            if stmt.var.name in later:
                var, value = stmt.var, stmt.value
                tile = n.Tile(self.names.fresh("held"), var.dtype, var.lanes, 1)
                body.append(n.TileStore(tile, n.const(0), var))
                held: n.Expr = n.TileLoad(tile, n.const(0))
                if isinstance(value, n.Index):
                    held = n.Index(held, value.extent, "clip")
                again = self.names.var("h", var.dtype, var.lanes)
                after.append(n.Let(again, held))
                new[var] = again
                spilled.append(tile)
        if len(body) > len(own):
            result.append(n.If(self._is_here(group.begin), tuple(body)))
        result += after
        self.renaming.names.update(new)
        return spilled

    def _is_here(self, place: n.Expr) -> n.Expr:
        begun = s.compare("less_equal", self.low, place)
        return s.both(begun, s.compare("less", place, self.high))

    def _keeping(
        self,
        kept: list[n.Tile],
        cleared: list[n.Tile],
        inside: list[n.Stmt],
        begin: n.Expr,
        end: n.Expr,
    ) -> list[n.Stmt]:
        """Return statements with what keeps tiles from one round to the next."""
        if not kept:
            return inside
        load: list[n.Stmt] = []
        save: list[n.Stmt] = []
        for tile in kept:
            name, size = self.names.fresh("kept"), n.const(tile.size * tile.lanes)
            buffer = n.Buffer(name, tile.dtype, (size,), "private")
            self.private.append(buffer)
            k = self.names.var("l")
            at = (s.mul(k, n.const(tile.lanes)),)
            load.append(_each(k, tile, n.TileStore(tile, k, n.Load(buffer, at, tile.lanes))))
            k = self.names.var("l")
            at = (s.mul(k, n.const(tile.lanes)),)
            save.append(_each(k, tile, n.Store(buffer, at, n.TileLoad(tile, k))))
        clear: list[n.Stmt] = []
        for tile in cleared:
            k, zero = self.names.var("l"), n.broadcast(n.const(0, tile.dtype), tile.lanes)
            clear.append(_each(k, tile, n.TileStore(tile, k, zero)))
        return [
            *map(n.Declare, kept),
            n.If(self._is_between(begin, self.low, end), tuple(load), tuple(clear)),
            *inside,
            n.If(self._is_between(begin, self.high, end), tuple(save)),
        ]

    def _is_between(self, begin: n.Expr, edge: n.Expr, end: n.Expr) -> n.Expr:
        return s.both(s.compare("less", begin, edge), s.compare("less", edge, end))

    def _cut(self, stmt: n.Stmt, begin: n.Expr) -> list[n.Stmt]:
        if isinstance(stmt, n.If):
            condition = self.renaming.expr(self.conditions.get(id(stmt), stmt.condition))
            then, otherwise = self.block(stmt.then, begin), self.block(stmt.otherwise, begin)
            return [n.If(condition, tuple(then), tuple(otherwise))]
        assert isinstance(stmt, n.For)
        return self._loop(stmt, begin)

    def _loop(self, loop: n.For, begin: n.Expr) -> list[n.Stmt]:
        length = self.lengths.inner(loop)
        inner, step = n.const(length), n.const(loop.step)
        first, end = (self.renaming.expr(e) for e in (loop.begin, loop.end))
        place = s.add(begin, s.mul(s.floordiv(s.sub(loop.var, first), step), inner))
        if loop.kind == "unroll":
            body = self.block(loop.body, place)
            return [n.For(loop.var, first, end, loop.step, tuple(body), "unroll")]
        last = n.const(length - 1)
        inside: Body
        if not (length > PART and any(map(self._is_cut, loop.body))):
            # A round of this loop is in the part in which it begins.
            low = self._turn(s.add(self.low, last), begin, inner)
            inside = self.renaming.block(loop.body)
        else:
            at = self.names.var("at")
            inside = (n.Let(at, place), *self.block(loop.body, at))
            if self.lengths.rounds(loop) <= FEW:
                return [n.For(loop.var, first, end, loop.step, inside)]
            low = self._turn(self.low, begin, inner)
        high = self._turn(s.add(self.high, last), begin, inner)
        result: list[n.Stmt] = []
        low = self._bound(result, s.maximum(low, n.const(0)))
        high = self._bound(result, s.minimum(self._rounds(loop, first, end), high))
        low, high = (s.add(first, s.mul(turn, step)) for turn in (low, high))
        return [*result, n.For(loop.var, low, high, loop.step, inside)]

    def _turn(self, place: n.Expr, begin: n.Expr, inner: n.Expr) -> n.Expr:
        return s.floordiv(s.sub(place, begin), inner)

    def _rounds(self, loop: n.For, begin: n.Expr, end: n.Expr) -> n.Expr:
        """Return how many rounds a loop has, so that the prover sees that all are whole."""
        length = s.sub(end, begin)
        if loop.step == 1:
            return length
        whole = self.lengths.expanded(length)
        room = 0 if all(c % loop.step == 0 for c in whole.values()) else loop.step - 1
        return s.floordiv(s.add(length, n.const(room)), n.const(loop.step))

    def _bound(self, result: list[n.Stmt], value: n.Expr) -> n.Expr:
        if isinstance(value, (n.Const, n.Var, n.DimRef)):
            return value
        var = self.names.var("e")
        result.append(n.Let(var, value))
        return var


def _put(groups: list[_Group], stmt: n.Stmt, is_cut: bool, begin: n.Expr) -> None:
    if is_cut or not groups or groups[-1].is_cut:
        groups.append(_Group([], is_cut, begin))
    groups[-1].body.append(stmt)
    used_names(stmt, groups[-1].used)


def _is_kept(tile: n.Tile, groups: list[_Group]) -> bool:
    """Return whether a tile must be kept from one group to another, or inside of one."""
    users = [g for g in groups if tile.name in g.used]
    return len(users) > 1 or any(g.is_cut for g in users)


def _is_index(value: n.Expr) -> bool:
    return value.dtype in (INT64, BOOL) and is_stable(value) and not has_index(value)


def _sets(group: _Group, tile: n.Tile) -> bool:
    """Return whether the first statements of a block give a tile its values, all of them."""
    for stmt in () if group.is_cut else group.body:
        match stmt:
            case n.TileStore(other, n.Const()) if other == tile and tile.size == 1:
                return True
            case n.For(var, n.Const(0), n.Const(size), 1, body) if size == tile.size:
                for inner in body:
                    if isinstance(inner, n.TileStore) and (inner.tile, inner.index) == (tile, var):
                        return True
    return False


def _each(var: n.Var, tile: n.Tile, stmt: n.Stmt) -> n.Stmt:
    """Return a loop over what a tile holds, which stays in registers if that is not much."""
    kind = "unroll" if tile.size <= FEW else "serial"
    return n.For(var, n.const(0), n.const(tile.size), 1, (stmt,), kind)

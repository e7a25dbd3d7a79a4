"""Random graphs of nodes, shared within and across scopes, are read back equal from their text."""

from __future__ import annotations

import random

import pytest

from relayvm.ir.build import call, const, function, get, if_, match, ref, ref_read, tuple_
from relayvm.ir.equal import structural_equal, structural_hash
from relayvm.ir.expr import Expr, Let, Var
from relayvm.ir.module import Module
from relayvm.ir.parser import parse_module
from relayvm.ir.prelude import prelude
from relayvm.ir.printer import print_module
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import free_vars
from relayvm.ops import OPS

LIBRARY = prelude(OPS)
CONS, NIL = (LIBRARY.constructor("List", name) for name in ("Cons", "Nil"))


class Graphs:
    """Makes expressions that use what is in scope again and again. `pool` is what may be used here:
    nodes all of whose free variables are in scope.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def expr(self, pool: list[Expr], depth: int) -> Expr:
        """Return an expression; what it makes in its own scope stays usable in that scope."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(pool)
        kind = rng.randrange(9)
        a = self.expr(pool, depth - 1)
        made: Expr
        if kind == 0:
            made = call(OPS["add"], a, self.expr(pool, depth - 1))
        elif kind == 1:
            made = get(tuple_(a, self.expr(pool, depth - 1)), 1)
        elif kind == 2:
            made = self.let(pool, a, depth)
        elif kind == 3:
            made = if_(a, self.inside(pool, depth), self.inside(pool, depth))
        elif kind == 4:
            x = Var(rng.choice("xyz"))
            made = function([x], self.inside([*pool, x], depth))
        elif kind == 5:
            head, tail = Var("h"), Var("t")
            body = self.inside([*pool, head, tail], depth)
            made = match(
                a, ((CONS, head, (CONS, None, tail)), body), (None, self.inside(pool, depth))
            )
        elif kind == 6:
            made = ref_read(ref(a))
        elif kind == 7:
            made = call(CONS, a, call(NIL))
        else:
            made = tuple_(a, tuple_(), const(rng.randrange(3)))
        pool.append(made)
        return made

    def inside(self, pool: list[Expr], depth: int) -> Expr:
        """Return an expression of an inner scope, whose nodes are not used outside."""
        return self.expr(list(pool), depth - 1)

    def let(self, pool: list[Expr], value: Expr, depth: int) -> Expr:
        x = Var(self.rng.choice("xyz_"))
        return Let(x, value, self.inside([*pool, x], depth))


@pytest.mark.parametrize("seed", range(100))
def test_random_graph_is_read_back_equal(seed):
    graphs = Graphs(seed)
    params = [Var("x"), Var("y")]
    pool: list[Expr] = [*params, const(1)]
    body = tuple_(*(graphs.expr(pool, 6) for _ in range(6)))
    main = function(params, body)
    assert not free_vars(main)
    module = Module({"main": main}, {"List": LIBRARY.types["List"]})
    verify_module(module)
    text = print_module(module, library=True)
    again = parse_module(text, OPS)
    verify_module(again)
    assert structural_equal(module, again), text
    assert structural_hash(module) == structural_hash(again)
    assert print_module(again, library=True) == text

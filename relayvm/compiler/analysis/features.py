"""Which parts of the language an expression or a module uses."""

from __future__ import annotations

from enum import IntEnum

from relayvm.compiler.analysis.scopes import is_primitive
from relayvm.ir.expr import (
    Call,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    Op,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.visit import LEAVES, binders, children, free_vars


class Feature(IntEnum):
    """One node kind, or one of two traits: sharing outside of lets, and recursive lets."""

    fVar = 0
    fGlobalVar = 1
    fConstant = 2
    fTuple = 3
    fTupleGetItem = 4
    fFunction = 5
    fOp = 6
    fCall = 7
    fLet = 8
    fIf = 9
    fRefCreate = 10
    fRefRead = 11
    fRefWrite = 12
    fConstructor = 13
    fMatch = 14
    fGraph = 15
    fLetRec = 16


_OF_NODES: tuple[tuple[type[Expr], Feature], ...] = (
    (Var, Feature.fVar),
    (GlobalVar, Feature.fGlobalVar),
    (Constant, Feature.fConstant),
    (Tuple, Feature.fTuple),
    (TupleGetItem, Feature.fTupleGetItem),
    (Function, Feature.fFunction),
    (Op, Feature.fOp),
    (Call, Feature.fCall),
    (Let, Feature.fLet),
    (If, Feature.fIf),
    (RefCreate, Feature.fRefCreate),
    (RefRead, Feature.fRefRead),
    (RefWrite, Feature.fRefWrite),
    (Constructor, Feature.fConstructor),
    (Match, Feature.fMatch),
)


def detect_features(item: Expr | Module) -> frozenset[Feature]:
    """Return the features of an expression, or of all functions of a module.

    Primitive functions count as functions and are not entered.
    """
    found: set[Feature] = set()
    for expr in item.functions.values() if isinstance(item, Module) else (item,):
        _detect(expr, found)
    return frozenset(found)


def _detect(root: Expr, found: set[Feature]) -> None:
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            if not isinstance(node, LEAVES):
                found.add(Feature.fGraph)
            continue
        seen.add(id(node))
        found.update(feature for kind, feature in _OF_NODES if isinstance(node, kind))
        if is_primitive(node):
            continue
        if binders(node):
            found.add(Feature.fVar)
        # Only a function sees the variable that it is bound to.
        local = isinstance(node, Let) and isinstance(node.value, Function)
        if local and node.var in free_vars(node.value):  # type: ignore[attr-defined]
            found.add(Feature.fLetRec)
        pending.extend(children(node))

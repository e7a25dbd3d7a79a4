"""A-normal form: every operand that is not an atom is named by a let in the scope of its node."""

from __future__ import annotations

from dataclasses import replace

from relayvm.base.trampoline import Recursive, trampoline
from relayvm.compiler.analysis.scopes import Scopes, is_atomic, is_primitive
from relayvm.compiler.transforms.generic_places import GeneralPlaces
from relayvm.ir.expr import (
    Call,
    Expr,
    Function,
    If,
    Let,
    Match,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.module import Module
from relayvm.ir.scope import Scope

Bindings = list[tuple[Var, Expr]]


def to_anf(module: Module) -> Module:
    """Name every operand: `add(exp(%x), %x)` -> `let %v = exp(%x); add(%v, %x)`.

    The last expression of a scope stays as it is, so tail calls remain tail calls. Primitive
    functions are left alone. A shared node is named once, in its own scope. Linear.
    """
    return module.with_functions(
        {name: function_to_anf(function) for name, function in module.functions.items()}
    )


def function_to_anf(function: Function) -> Function:
    """Return the A-normal form of one function; the same object if it has that form already."""
    if is_primitive(function) or is_anf(function):
        return function
    return trampoline(Normalizer(function).function(function))


def is_anf(function: Function) -> bool:
    """Return True if operands are atoms, no let stands in a let's value, and no node is shared."""
    pending: list[Expr] = [function.body]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        while isinstance(node, Let):
            if id(node) in seen:
                return False
            seen.add(id(node))
            if isinstance(node.value, Let):
                return False
            pending.append(node.value)
            node = node.body
        if id(node) in seen and not is_atomic(node):
            return False
        seen.add(id(node))
        match node:
            case Function():
                if not is_primitive(node):
                    pending.append(node.body)
            case If():
                if not is_atomic(node.cond):
                    return False
                pending += [node.true_branch, node.false_branch]
            case Match():
                if not is_atomic(node.data):
                    return False
                pending += [clause.rhs for clause in node.clauses]
            case _:
                if not all(is_atomic(o) or is_primitive(o) for o in _operands(node)):
                    return False
    return True


def _operands(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Call():
            return (node.op, *node.args)
        case Tuple():
            return node.fields
        case TupleGetItem():
            return (node.tuple_value,)
        case RefCreate():
            return (node.value,)
        case RefRead():
            return (node.ref,)
        case RefWrite():
            return (node.ref, node.value)
    return ()


class Normalizer:
    """Names the nodes of one function, in order of evaluation, in the scopes where they stand.

    Subclasses leave some of them unnamed: these stay operands, shared where they were.
    """

    def __init__(self, function: Function) -> None:
        self.scopes = Scopes(function)
        self.blocks: dict[Scope, Bindings] = {}
        self.names: dict[int, Expr] = {}
        self.is_general = GeneralPlaces()

    def leaves(self, node: Expr) -> bool:
        """Return True if a node that is no atom may stay an operand."""
        return False

    def function(self, node: Function) -> Recursive[Function]:
        body = yield self.body(node.body, self.scopes.opened(node)[0])
        return node if body is node.body else replace(node, body=body)

    def body(self, node: Expr, scope: Scope) -> Recursive[Expr]:
        """Return the form of what a scope evaluates: its lets around its last expression."""
        block: Bindings = []
        self.blocks[scope] = block
        while isinstance(node, Let) and self.is_new(node, scope):
            yield self.bind(node, block)
            node = node.body
        if self.is_new(node, scope):
            result: Expr = yield self.rebuild(node)
        else:
            result = yield self.atom(node)
        for var, value in reversed(block):
            result = Let(var, value, result, span=value.span, checked_type=result.checked_type)
        return result

    def is_new(self, node: Expr, scope: Scope) -> bool:
        return not is_atomic(node) and id(node) not in self.names and self.scopes.of(node) is scope

    def atom(self, node: Expr) -> Recursive[Expr]:
        """Return the atom that stands for the value of `node`, naming it if that is still to be
        done.
        """
        if isinstance(node, Var):
            return self.names.get(id(node), node)
        if is_atomic(node):
            return node
        known = self.names.get(id(node))
        if known is not None:
            return known
        block = self.blocks[self.scopes.of(node)]
        if isinstance(node, Let):
            result: Expr = yield self.let_value(node, block)
        elif self.leaves(node):
            result = yield self.rebuild(node)
        else:
            says = node.checked_type if self.is_general(node) else None
            result = Var("v", says, span=node.span, checked_type=node.checked_type)
            value = yield self.rebuild(node)
            block.append((result, value))
        self.names[id(node)] = result
        return result

    def let_value(self, node: Let, block: Bindings) -> Recursive[Expr]:
        scope = self.scopes.of(node)
        inner: Expr = node
        while isinstance(inner, Let) and self.is_new(inner, scope):
            yield self.bind(inner, block)
            inner = inner.body
        result: Expr = yield self.atom(inner)
        return result

    def bind(self, let: Let, block: Bindings) -> Recursive[None]:
        value, var = let.value, let.var
        fresh = (
            not is_atomic(value)
            and not isinstance(value, Let)
            and id(value) not in self.names
            and block is self.blocks.get(self.scopes.of(value))
        )
        if fresh and not (_widens(var, value) and self.scopes.uses(value) > 1):
            self.names[id(value)] = var
            rebuilt = yield self.rebuild(value)
            block.append((var, rebuilt))
            return
        atom: Expr = yield self.atom(value)
        if var.type_annotation is None or not _widens(var, value):
            self.names[id(var)] = atom
        else:
            block.append((var, atom))

    def rebuild(self, node: Expr) -> Recursive[Expr]:
        """Return `node` with atoms for operands and normal forms for bodies."""
        match node:
            case Function():
                if is_primitive(node):
                    return node
                function: Function = yield self.function(node)
                return function
            case If():
                cond = yield self.atom(node.cond)
                arms = self.scopes.opened(node)
                true_branch = yield self.body(node.true_branch, arms[0])
                false_branch = yield self.body(node.false_branch, arms[1])
                return replace(node, cond=cond, true_branch=true_branch, false_branch=false_branch)
            case Match():
                data = yield self.atom(node.data)
                clauses = []
                for clause, scope in zip(node.clauses, self.scopes.opened(node)):
                    rhs = yield self.body(clause.rhs, scope)
                    clauses.append(replace(clause, rhs=rhs))
                return replace(node, data=data, clauses=tuple(clauses))
        atoms = []
        for operand in _operands(node):
            if is_primitive(operand):
                atoms.append(operand)
            else:
                atom = yield self.atom(operand)
                atoms.append(atom)
        return _with_operands(node, atoms)


def _widens(var: Var, value: Expr) -> bool:
    return var.type_annotation is not None and var.type_annotation != value.checked_type


def _with_operands(node: Expr, atoms: list[Expr]) -> Expr:
    if all(a is b for a, b in zip(atoms, _operands(node))):
        return node
    match node:
        case Call():
            return replace(node, op=atoms[0], args=tuple(atoms[1:]))
        case Tuple():
            return replace(node, fields=tuple(atoms))
        case TupleGetItem():
            return replace(node, tuple_value=atoms[0])
        case RefCreate():
            return replace(node, value=atoms[0])
        case RefRead():
            return replace(node, ref=atoms[0])
        case RefWrite():
            return replace(node, ref=atoms[0], value=atoms[1])
    raise AssertionError(f"{node!r} has no operands")

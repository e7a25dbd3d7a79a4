"""A generator of well-typed programs that end: type-directed, over all nodes, patterns and most
operators.

`program(choose)` builds a module from choices; `choose(n)` gives a number below n. `programs()` is
the hypothesis strategy, `random_program(seed)` one program. No program traps. What an operator can
yield is asked of the operator table.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import product

import numpy as np
from hypothesis import strategies as st

from relayvm.base.dtypes import BOOL, BY_NAME, FLOAT32, INT32
from relayvm.base.shapes import ShapeError
from relayvm.compiler.analysis.call_graph import call_graph, recursive_names
from relayvm.compiler.host.values import DataValue
from relayvm.ir.expr import (
    Attrs,
    Call,
    Clause,
    Constant,
    Constructor,
    Expr,
    Function,
    GlobalVar,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from relayvm.ir.intrinsics import INTRINSICS, array_of
from relayvm.ir.module import Module
from relayvm.ir.prelude import parse_program
from relayvm.ir.printer import print_module
from relayvm.ir.types import (
    FuncType,
    GlobalTypeVar,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
)
from relayvm.ir.visit import free_vars, post_order
from relayvm.ops import OPS, Operator

Choose = Callable[[int], int]

BASE = """
type T { Leaf(Tensor[(3), float32]), Node(T, T, int32) }
def @total(%t: T) -> Tensor[(3), float32] {
  match (%t) {
    Leaf(%x) => %x,
    Node(%a, Leaf(%y), %n) => add(@total(%a), multiply(%y, cast(%n, dtype="float32"))),
    Node(%a, %b, _) => subtract(@total(%a), @total(%b)),
  }
}
def @count(%a: Array[Tensor[(3), float32]]) -> int32 { array.length(%a) }
def @identity[A](%x: A) -> A { %x }
def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }
def @double[n](%x: Tensor[(n), float32]) -> Tensor[(n), float32] { add(%x, %x) }
def @widen(%x: Tensor[(?), float32]) -> Tensor[(?), float32] { negative(%x) }
def @narrow(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { %x }
def @lists(%l: List[int32], %o: Option[int32]) -> (List[int32], int32, int32, int32, int32) {
  let %m = @map(fn (%x: int32) { add(%x, 1) }, %l);
  (%m, @length(%m), @sum(%l), @foldl(fn (%a: int32, %x: int32) { subtract(%a, %x) }, 0, @rev(%l)),
   match (%o) { Some(%x) => %x, None => 0 })
}
"""

F, I, B = (TensorType((), d) for d in (FLOAT32, INT32, BOOL))
F3, F23, F13, F31 = (TensorType(s, FLOAT32) for s in ((3,), (2, 3), (1, 3), (3, 1)))
I3, I23, B3 = TensorType((3,), INT32), TensorType((2, 3), INT32), TensorType((3,), BOOL)
TENSORS = (F, I, B, F3, F23, F13, F31, I3, I23, B3)
TREE = TypeCall(GlobalTypeVar("T"), ())
LIST = TypeCall(GlobalTypeVar("List"), (I,))
OPTION = TypeCall(GlobalTypeVar("Option"), (F3,))
# Arrays are never empty, so that index 0 is safe.
ARRAY = array_of(F3)
STEP = FuncType((F3,), F3)

# Attributes without which an operator cannot be called, or with which it does something else.
ATTRIBUTES: dict[str, list[dict[str, object]]] = {
    "cast": [{"dtype": BY_NAME[d]} for d in ("float32", "int32", "bool")],
    "clip": [{"a_min": -1.0, "a_max": 1.0}],
    "reshape": [{"newshape": s} for s in ((3,), (1, 3), (3, 1), (2, 3), (-1,))],
    "transpose": [{}, {"axes": (1, 0)}],
    "expand_dims": [{"axis": 0}, {"axis": 1}],
    "squeeze": [{}],
    "broadcast_to": [{"shape": s} for s in ((3,), (2, 3), (1, 3))],
    "strided_slice": [{"begin": (0,), "end": (1,)}, {"begin": (0, 1), "end": (1, 3)}],
    "split": [{"indices_or_sections": 3}],
    "take": [{"axis": 0, "mode": "clip"}, {"axis": 0, "mode": "wrap"}],
    "full": [{"shape": (3,), "dtype": FLOAT32}],
    "zeros": [{"shape": (3,), "dtype": FLOAT32}, {"shape": (2, 3), "dtype": INT32}],
    "ones": [{"shape": (3,), "dtype": INT32}, {"shape": (2, 3), "dtype": FLOAT32}],
    "sum": [{}, {"axis": (0,)}, {"axis": (-1,), "keepdims": True}],
    "mean": [{}, {"axis": (0,)}],
    "max": [{"axis": (0,)}],
    "concatenate": [{"axis": 0}],
    "stack": [{"axis": 0}],
}
SKIPPED = {"arange"}


@dataclass(frozen=True)
class Recipe:
    """One way to get a type: an operator on operands of these types."""

    op: Operator
    operands: tuple[Type, ...]
    attrs: tuple[tuple[str, object], ...]
    projection: int = -1


@lru_cache(maxsize=1)
def recipes() -> dict[Type, dict[str, list[Recipe]]]:
    """Return, for each tensor type, the calls that yield it, by operator: asked of the table."""
    found: dict[Type, dict[str, list[Recipe]]] = defaultdict(lambda: defaultdict(list))
    for op in OPS.values():
        if op.has_effect or op.is_data_dependent or op.name in SKIPPED:
            continue
        for attrs, operands in product(ATTRIBUTES.get(op.name, [{}]), operand_types(op)):
            try:
                result = op.result_type(operands, attrs)
                if op.traps_on_values(operands, attrs):
                    continue
            except ShapeError:
                continue
            items = tuple(attrs.items())
            if result in TENSORS:
                found[result][op.name].append(Recipe(op, operands, items))
            elif isinstance(result, TupleType):
                for i, field in enumerate(result.fields):
                    if field in TENSORS:
                        found[field][op.name].append(Recipe(op, operands, items, i))
    return found


def operand_types(op: Operator) -> Iterator[tuple[Type, ...]]:
    """Yield candidate operand types; the rule of the operator decides."""
    count = len(op.operands)
    if count == 1:
        yield from ((t,) for t in TENSORS)
        yield from ((TupleType((t, t)),) for t in TENSORS)
    elif count <= 3:
        yield from product(TENSORS, repeat=count)
    if count == 0:
        yield ()


@lru_cache(maxsize=1)
def base_module() -> Module:
    """Return the module that every program extends."""
    return parse_program(BASE, OPS)


Env = tuple[tuple[Expr, Type], ...]
ZERO = Constant(np.array(0, np.int32))


def intrinsic(name: str, *args: Expr) -> Call:
    """Return a call of an operation on arrays."""
    return Call(INTRINSICS[f"array.{name}"], args)


@dataclass
class Generator:
    """Builds expressions of a given type from choices."""

    choose: Choose
    module: Module
    functions: dict[str, Function] = field(default_factory=dict)
    names: int = 0

    def var(self, type_: Type) -> Var:
        self.names += 1
        return Var(f"v{self.names}", type_)

    def one_of(self, items: list) -> object:
        return items[self.choose(len(items))]

    def constructor(self, type_name: str, name: str) -> Constructor:
        return self.module.constructor(type_name, name)

    # -- Expressions ------------------------------------------------------------------------------

    def expr(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return an expression of a type; `env` holds variables and nodes that may be shared."""
        known = [e for e, t in env if t == type_]
        if known and (fuel <= 0 or self.choose(4) == 0):
            return self.one_of(known)
        if fuel <= 0:
            return self.leaf(type_, env)
        if self.choose(3) == 0:
            return self.control(type_, env, fuel)
        return self.build(type_, env, fuel)

    def operands(self, types: tuple[Type, ...], env: Env, fuel: int) -> list[Expr]:
        """Return expressions; later ones may share earlier ones."""
        made: list[Expr] = []
        for type_ in types:
            made.append(self.expr(type_, env, fuel))
            env = (*env, (made[-1], type_))
        return made

    def leaf(self, type_: Type, env: Env) -> Expr:
        match type_:
            case TensorType():
                return Constant(self.array(type_))
            case TupleType():
                return Tuple(tuple(self.leaf(f, env) for f in type_.fields))
            case FuncType():
                return Function(
                    tuple(map(self.var, type_.arg_types)), self.leaf(type_.ret_type, ())
                )
            case RefType():
                return RefCreate(self.leaf(type_.value, env))
        if type_ == TREE:
            return Call(self.constructor("T", "Leaf"), (self.leaf(F3, env),))
        if type_ == ARRAY:
            empty = intrinsic("new", Constant(np.array(self.choose(3), np.int32)))
            return intrinsic("push", empty, self.leaf(F3, env))
        name = {LIST: "Nil", OPTION: "None"}[type_]
        return Call(self.constructor(type_.func.name, name), (), type_args=type_.args)

    def array(self, type_: TensorType) -> np.ndarray:
        values = [self.choose(7) - 3 for _ in range(int(np.prod(type_.shape, dtype=int)))]
        array = np.array(values).reshape(type_.shape)
        if type_.dtype is FLOAT32:
            return np.asarray(array * 0.37, np.float32)
        return np.asarray(array > 0 if type_.dtype is BOOL else array, type_.dtype.numpy)

    def build(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return an expression whose root makes a value of the type."""
        match type_:
            case TensorType():
                return self.tensor(type_, env, fuel)
            case TupleType():
                return Tuple(tuple(self.operands(type_.fields, env, fuel // 2)))
            case FuncType():
                return self.function(type_, env, fuel)
            case RefType():
                return RefCreate(self.expr(type_.value, env, fuel - 1))
        if type_ == TREE:
            parts = self.operands((TREE, TREE, I), env, fuel // 3)
            return Call(self.constructor("T", "Node"), tuple(parts))
        if type_ == ARRAY:
            array, item = self.operands((ARRAY, F3), env, fuel // 2)
            if self.choose(2):
                return intrinsic("push", array, item)
            return intrinsic("set", array, ZERO, item)
        if type_ == LIST:
            parts = self.operands((I, LIST), env, fuel // 2)
            return Call(self.constructor("List", "Cons"), tuple(parts))
        assert type_ == OPTION
        return Call(self.constructor("Option", "Some"), (self.expr(F3, env, fuel - 1),))

    def tensor(self, type_: TensorType, env: Env, fuel: int) -> Expr:
        if type_ == F3 and self.choose(6) == 0:
            return self.vector(env, fuel)
        if type_ == I and self.choose(12) == 0:
            array = self.expr(ARRAY, env, fuel - 1)
            made = Call(GlobalVar("count"), (array,))
            return made if self.choose(2) else intrinsic("length", array)
        by_operator = recipes()[type_]
        ways = by_operator[sorted(by_operator)[self.choose(len(by_operator))]]
        recipe = self.one_of(ways)
        args = self.operands(recipe.operands, env, fuel // 2)
        call = Call(recipe.op, tuple(args), Attrs(dict(recipe.attrs)))
        if recipe.projection < 0:
            return call
        return TupleGetItem(call, recipe.projection)

    def vector(self, env: Env, fuel: int) -> Expr:
        """Return a vector of 3 through the functions of the base module."""
        which = self.choose(6)
        if which == 0:
            return Call(GlobalVar("total"), (self.expr(TREE, env, fuel // 2),))
        if which == 4:
            return intrinsic("get", self.expr(ARRAY, env, fuel - 1), ZERO)
        if which == 5:
            reference, x = self.operands((RefType(STEP), F3), env, fuel // 2)
            return Call(RefRead(reference), (x,))
        inner = self.expr(F3, env, fuel - 1)
        if which == 1:
            return Call(GlobalVar("narrow"), (Call(GlobalVar("widen"), (inner,)),))
        return Call(GlobalVar(("double", "identity")[which - 2]), (inner,))

    def function(self, type_: FuncType, env: Env, fuel: int) -> Function:
        params = tuple(map(self.var, type_.arg_types))
        inner = (*env, *zip(params, type_.arg_types))
        return Function(params, self.expr(type_.ret_type, inner, fuel - 1), type_.ret_type)

    # -- Control ----------------------------------------------------------------------------------

    def control(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return an expression of any type: a binding, a choice, a call, a projection."""
        forms = [
            self.let,
            self.let,
            self.if_,
            self.match_tree,
            self.match_list,
            self.match_option,
            self.match_tuple,
            self.call_lambda,
            self.call_global,
            self.projection,
            self.reference,
            self.loop,
        ]
        return self.one_of(forms)(type_, env, fuel - 1)

    def let(self, type_: Type, env: Env, fuel: int) -> Expr:
        bound = self.any_type(functions=True)
        value = self.expr(bound, env, fuel // 2)
        var = self.var(bound)
        if self.choose(2) and not isinstance(bound, FuncType):
            var = replace(var, type_annotation=None)
        return Let(var, value, self.expr(type_, (*env, (var, bound)), fuel // 2))

    def any_type(self, functions: bool = False) -> Type:
        simple = [F3, F23, I, F, B, I3, TREE, LIST, OPTION, ARRAY]
        which = self.choose(14)
        if which < len(simple):
            return simple[which]
        if which == len(simple):
            return TupleType((self.one_of(simple), self.one_of(simple)))
        if not functions:
            return F3
        return (STEP, RefType(I), RefType(STEP))[which - len(simple) - 1]

    def if_(self, type_: Type, env: Env, fuel: int) -> Expr:
        cond = self.expr(B, env, fuel // 3)
        arms = [self.expr(type_, env, fuel // 2) for _ in range(2)]
        return If(cond, arms[0], arms[1])

    def match_tree(self, type_: Type, env: Env, fuel: int) -> Expr:
        leaf, node = self.constructor("T", "Leaf"), self.constructor("T", "Node")
        x, a, n = self.var(F3), self.var(TREE), self.var(I)
        inner = PatternConstructor(leaf, (PatternVar(x),))
        first = PatternConstructor(node, (PatternVar(a), inner, PatternVar(n)))
        bound = ((x, F3), (a, TREE), (n, I))
        clauses = [Clause(first, self.expr(type_, (*env, *bound), fuel // 3))]
        clauses.append(Clause(PatternWildcard(), self.expr(type_, env, fuel // 3)))
        return Match(self.expr(TREE, env, fuel // 3), tuple(clauses))

    def match_list(self, type_: Type, env: Env, fuel: int) -> Expr:
        cons, nil = self.constructor("List", "Cons"), self.constructor("List", "Nil")
        head, tail = self.var(I), self.var(LIST)
        pattern = PatternConstructor(cons, (PatternVar(head), PatternVar(tail)))
        full = self.expr(type_, (*env, (head, I), (tail, LIST)), fuel // 3)
        clauses = [Clause(PatternConstructor(nil), self.expr(type_, env, fuel // 3))]
        clauses.insert(self.choose(2), Clause(pattern, full))
        return Match(self.expr(LIST, env, fuel // 3), tuple(clauses))

    def match_option(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return a match that is not complete by its patterns, on data that fits."""
        some = self.constructor("Option", "Some")
        value = self.var(F3)
        data = Call(some, (self.expr(F3, env, fuel // 2),))
        body = self.expr(type_, (*env, (value, F3)), fuel // 2)
        clause = Clause(PatternConstructor(some, (PatternVar(value),)), body)
        return Match(data, (clause,), complete=False)

    def match_tuple(self, type_: Type, env: Env, fuel: int) -> Expr:
        kinds = (self.any_type(), self.any_type())
        first = self.var(kinds[0])
        pattern = PatternTuple((PatternVar(first), PatternWildcard()))
        data = self.expr(TupleType(kinds), env, fuel // 2)
        body = self.expr(type_, (*env, (first, kinds[0])), fuel // 2)
        return Match(data, (Clause(pattern, body),))

    def call_lambda(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return a call of a local function, which a let names and two calls may share."""
        kind = FuncType((F3, I), type_)
        function = self.function(kind, env, fuel // 2)
        if self.choose(2):
            return Call(function, tuple(self.operands(kind.arg_types, env, fuel // 2)))
        var = replace(self.var(kind), type_annotation=None)
        call = Call(var, tuple(self.operands(kind.arg_types, env, fuel // 3)))
        # The second call may use the result of the first.
        env = (*env, (call, type_))
        last = Call(var, tuple(self.operands(kind.arg_types, env, fuel // 3)))
        first = self.var(type_)
        return Let(var, function, Let(first, call, last))

    def call_global(self, type_: Type, env: Env, fuel: int) -> Expr:
        fitting = [n for n, f in self.functions.items() if f.ret_type == type_]
        if fitting and self.choose(2):
            name = self.one_of(fitting)
            types = tuple(p.type_annotation for p in self.functions[name].params)
            return Call(GlobalVar(name), tuple(self.operands(types, env, fuel // 3)))
        other = self.any_type()
        pair = Tuple(tuple(self.operands((other, type_), env, fuel // 2)))
        if self.choose(3) == 0 and type_ == I:
            args = self.operands((LIST,), env, fuel // 2)
            none = Call(self.constructor("Option", "None"), (), type_args=(I,))
            call = Call(GlobalVar("lists"), (args[0], none))
            return TupleGetItem(call, 1 + self.choose(4))
        return TupleGetItem(Call(GlobalVar("swap"), (pair,)), 0)

    def projection(self, type_: Type, env: Env, fuel: int) -> Expr:
        index = self.choose(2)
        kinds = [self.any_type(), self.any_type()]
        kinds[index] = type_
        return TupleGetItem(self.expr(TupleType(tuple(kinds)), env, fuel), index)

    def reference(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return a sequence of writes and reads of a new or known reference."""
        if isinstance(type_, (FuncType, RefType)):
            return self.let(type_, env, fuel)
        kind = RefType(type_)
        var, done = self.var(kind), self.var(TupleType(()))
        inner: Env = (*env, (var, kind))
        value = self.expr(type_, inner, fuel // 3)
        before = self.var(type_)
        rest = self.expr(type_, (*inner, (before, type_)), fuel // 3)
        read = RefRead(var) if self.choose(2) else rest
        body = Let(before, RefRead(var), Let(done, RefWrite(var, value), read))
        return Let(var, RefCreate(self.expr(type_, env, fuel // 3)), body)

    def loop(self, type_: Type, env: Env, fuel: int) -> Expr:
        """Return a bounded recursion of a local function that may capture anything."""
        kind = FuncType((I, type_), type_)
        name, count, value = self.var(kind), self.var(I), self.var(type_)
        less = Call(OPS["subtract"], (count, Constant(np.array(1, np.int32))))
        again = Call(name, (less, self.expr(type_, (*env, (count, I), (value, type_)), fuel // 2)))
        stop = Call(OPS["less_equal"], (count, Constant(np.array(0, np.int32))))
        function = Function((count, value), If(stop, value, again), type_)
        times = Constant(np.array(self.choose(4), np.int32))
        return Let(name, function, Call(name, (times, self.expr(type_, env, fuel // 3))))

    # -- Whole programs ---------------------------------------------------------------------------

    def global_function(self, name: str, fuel: int) -> None:
        result = self.any_type()
        params = (self.var(I), self.var(result), self.var(F3))
        env = tuple((p, p.type_annotation) for p in params)
        body = self.expr(result, env, fuel)
        if self.choose(2):
            # A bounded recursion: the first parameter counts down, the last is passed on unchanged.
            less = Call(OPS["subtract"], (params[0], Constant(np.array(1, np.int32))))
            stop = Call(OPS["less_equal"], (params[0], Constant(np.array(0, np.int32))))
            again = Call(GlobalVar(name), (less, body, params[2]))
            limit = Call(OPS["greater"], (params[0], Constant(np.array(4, np.int32))))
            stop = Call(OPS["logical_or"], (stop, limit))
            body = If(stop, params[1], again)
        self.functions[name] = Function(params, body, result)


def program(choose: Choose, fuel: int = 24) -> Module:
    """Return a module with `main` over `MAIN_TYPES`."""
    base = base_module()
    generator = Generator(choose, base)
    for index in range(choose(3)):
        generator.global_function(f"f{index}", fuel // 2)
    params = tuple(map(generator.var, MAIN_TYPES))
    result = generator.any_type()
    if generator.choose(2):
        result = TupleType((result, generator.any_type()))
    body = generator.expr(result, tuple(zip(params, MAIN_TYPES)), fuel)
    functions = {**base.functions, **generator.functions, "main": Function(params, body, result)}
    return base.with_functions(functions)


MAIN_TYPES = (F3, F23, I, B, TREE, LIST)


def arguments(choose: Choose) -> tuple[object, ...]:
    """Return arguments of `main`, with NaN, infinity and signed zero now and then."""
    special = [0.5, -1.25, 2.0, -0.0, float("nan"), float("inf"), 1e-3]

    def floats(shape: tuple[int, ...]) -> np.ndarray:
        values = [special[choose(len(special))] for _ in range(int(np.prod(shape)))]
        return np.array(values, np.float32).reshape(shape)

    leaf = DataValue("Leaf", "T", 0, (floats((3,)),))
    tree = DataValue("Node", "T", 1, (leaf, leaf, np.array(2, np.int32)))
    items = DataValue("Nil", "List", 1, ())
    for _ in range(choose(3)):
        items = DataValue("Cons", "List", 0, (np.array(choose(9), np.int32), items))
    number = np.array(choose(7) - 2, np.int32)
    flag = np.array(bool(choose(2)))
    return (floats((3,)), floats((2, 3)), number, flag, tree if choose(2) else leaf, items)


def programs(fuel: int = 16) -> st.SearchStrategy[tuple[Module, tuple[object, ...]]]:
    """Return the strategy of modules and arguments; failures shrink in fuel, then seed."""
    return st.builds(random_program, st.integers(0, 1_000_000), fuel=st.integers(1, fuel)).map(
        _Case
    )


class _Case(tuple):
    """A module and its arguments, shown as text when a law fails."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{print_module(self[0])}\narguments: {self[1]!r}"


def random_program(seed: int, fuel: int = 24) -> tuple[Module, tuple[object, ...]]:
    """Return the module and arguments of one seed."""
    choose = random.Random(seed).randrange
    return program(choose, fuel), arguments(choose)


def features(module: Module) -> set[str]:
    """Return what a program uses: node and pattern kinds, operators, and captures, recursion,
    sharing.
    """
    found: set[str] = set()
    for name in recursive_names(call_graph(module)):
        found.add("recursion" if name not in module.library else "library recursion")
    for name, function in module.functions.items():
        if name in base_module().functions:
            continue
        seen: set[int] = set()
        for node in post_order(function):
            found.add(type(node).__name__ if not isinstance(node, Operator) else "Op")
            if isinstance(node, Operator):
                found.add(f"operator {node.name}")
            if isinstance(node, Function) and node is not function and free_vars(node):
                found.add("captured closure")
            local = isinstance(node, Let) and isinstance(node.value, Function)
            if local and node.var in free_vars(node.value):
                found.add("local recursion")
            if isinstance(node, Match):
                found.update(pattern_kinds(node))
                found.add("complete match" if node.complete else "partial match")
            for part in _operand_nodes(node):
                if id(part) in seen and not isinstance(part, (Var, Constant)):
                    found.add("shared node")
                seen.add(id(part))
    return found


def _operand_nodes(node: Expr) -> tuple[Expr, ...]:
    return node.args if isinstance(node, Call) else ()


def pattern_kinds(match: Match) -> set[str]:
    """Return the classes of all patterns of a match."""
    kinds: set[str] = set()
    pending = [clause.lhs for clause in match.clauses]
    while pending:
        pattern = pending.pop()
        kinds.add(type(pattern).__name__)
        pending.extend(getattr(pattern, "patterns", ()))
    return kinds

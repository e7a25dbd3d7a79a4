"""Random programs that can be differentiated: texts over closures, recursion, data, references,
arrays, tuples, sizes that are not known, polymorphic functions and shared values.

`smooth_program(seed, fuel)` gives `main: Tensor[(3), float64] -> Tensor[(), float64]`; all values
stay small, and no choice depends on them but through the sign of a sum.
"""

from __future__ import annotations

from text_programs import Env, Maker, TextGenerator, template

BASE = """
type Tree { Leaf(T3), Node(Tree, T3, Tree) }
def @walk(%t: Tree) -> T3 {
  match (%t) {
    Leaf(%a) => tanh(%a),
    Node(Leaf(%a), %b, %r) => %a * %b + @walk(%r),
    Node(%l, %b, _) => @walk(%l) - %b
  }
}
def @pick[A](%c: bool, %a: A, %b: A) -> A { if (%c) { %a } else { %b } }
def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }
def @even(%x: T3, %n: int32) -> T3 { if (%n <= 0) { %x } else { @odd(sin(%x), %n - 1) } }
def @odd(%x: T3, %n: int32) -> T3 { if (%n <= 0) { tanh(%x) } else { @even(%x * %x, %n - 1) } }
def @wide(%x: T3, %n: int32) -> VQ {
  if (%n <= 0) { %x } else { concatenate((@wide(%x, %n - 1), tanh(%x)), axis=0) }
}
def @apply(%f: fn (T3) -> T3, %x: T3) -> T3 { %f(tanh(%f(%x))) }
def @sized[n](%x: Tensor[(n), float64]) -> Tensor[(n), float64] { %x * sin(%x) }
def @total(%a: Array[T3], %i: int32) -> T3 {
  if (%i >= array.length(%a)) { zeros(shape=[3], dtype="float64") }
  else { array.get(%a, %i) + @total(%a, %i + 1) }
}
"""
VECTOR, SCALAR, WIDE = "T3", "Tensor[(), float64]", "VQ"
PAIR, LIST, ARRAY, TREE = f"(T3, {SCALAR})", "List[T3]", "Array[T3]", "Tree"
STEP, REF, STEP_REF = "fn (T3) -> T3", "ref(T3)", "ref(fn (T3) -> T3)"
DEEP = "((T3, int32), List[T3])"
NAMED = {"T3": "Tensor[(3), float64]", "VQ": "Tensor[(?), float64]"}
KINDS = (VECTOR, SCALAR, WIDE, PAIR, LIST, ARRAY, TREE, STEP, REF, STEP_REF, DEEP)


class Smooth(TextGenerator):
    """Programs over float64."""

    kinds = KINDS
    condition = ("{} > 0.1f64", SCALAR)

    def leaf(self, kind: str, env: Env) -> str:
        x = next((name for name, k in reversed(env) if k == VECTOR), "%x")
        a, b = self.name(), self.name()
        return {
            VECTOR: x,
            SCALAR: f"sum(tanh({x}))",
            WIDE: f"concatenate(({x}, {x}), axis=0)",
            PAIR: f"({x}, 2f64)",
            LIST: f"Cons({x}, Nil)",
            ARRAY: f"array.push(array.new(2), {x})",
            TREE: f"Leaf({x})",
            STEP: f"fn ({a}: T3) {{ {a} * {x} }}",
            REF: f"ref({x})",
            STEP_REF: f"ref(fn ({b}: T3) {{ sin({b}) }})",
            DEEP: f"(({x}, 1), Cons({x}, Nil))",
        }[kind]


def matched(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    head, tail = self.name(), self.name()
    inner = (*env, (head, VECTOR), (tail, LIST))
    full, empty = self.expr(kind, inner, fuel // 2), self.expr(kind, env, fuel // 3)
    data = self.expr(LIST, env, fuel // 2)
    return f"(match ({data}) {{ Cons({head}, {tail}) => {full}, Nil => {empty} }})"


def written(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    """Return a write to a reference in front of an expression."""
    which, held = self.random.choice([(REF, VECTOR), (STEP_REF, STEP)])
    target = self.expr(which, env, fuel // 3)
    name = self.name()
    value = self.expr(held, (*env, (name, which)), fuel // 2)
    rest = self.expr(kind, (*env, (name, which)), fuel // 2)
    return f"(let {name}: {which} = {target}; ref_write({name}, {value}); {rest})"


def function(program: TextGenerator, env: Env, fuel: int) -> str:
    name = program.name()
    return f"(fn ({name}: T3) {{ {program.expr(VECTOR, (*env, (name, VECTOR)), fuel)} }})"


def mapped(program: TextGenerator, env: Env, fuel: int) -> str:
    step, items = program.expr(STEP, env, fuel // 2), program.expr(LIST, env, fuel // 2)
    return f"@map({step}, {items})"


def folded(program: TextGenerator, env: Env, fuel: int) -> str:
    a, b = program.name(), program.name()
    body = program.expr(VECTOR, (*env, (a, VECTOR), (b, VECTOR)), fuel // 2)
    return f"@foldl(fn ({a}: T3, {b}: T3) {{ {body} }}, %x, {program.expr(LIST, env, fuel // 2)})"


MAKERS: dict[str, list[Maker]] = {
    VECTOR: [
        template("tanh({} * {})", VECTOR, VECTOR),
        template("tanh({} + {})", VECTOR, SCALAR),
        template("sin({})", VECTOR),
        template("ref_read({})", REF),
        template("ref_read({})(%x)", STEP_REF),
        template("tanh({}({}))", STEP, VECTOR),
        template("tanh(@walk({}))", TREE),
        template("@even({}, 3)", VECTOR),
        template("tanh(@apply({}, {}))", STEP, VECTOR),
        template("@sized({})", VECTOR),
        template("tanh(@total({}, 0))", ARRAY),
        template("{}.0", PAIR),
        template("{}.0.0", DEEP),
        template("split(concatenate(({}, {}), axis=0), indices_or_sections=2).1", VECTOR, VECTOR),
        template("topk({}, k=3, ret_type='values', dtype='int32')", VECTOR),
        template("reverse({}, axis=0)", VECTOR),
        folded,
    ],
    SCALAR: [
        template("tanh(sum({} * {}))", VECTOR, VECTOR),
        template("mean({})", WIDE),
        template("max({})", VECTOR),
        template("{}.1", PAIR),
        template("tanh({} * {})", SCALAR, SCALAR),
    ],
    WIDE: [
        template("@wide({}, 2)", VECTOR),
        template("@sized({})", WIDE),
        template("concatenate(({}, {}), axis=0)", WIDE, VECTOR),
        template("tanh({})", WIDE),
    ],
    PAIR: [template("({}, {})", VECTOR, SCALAR)],
    LIST: [template("Cons({}, {})", VECTOR, LIST), template("@rev({})", LIST), mapped],
    ARRAY: [
        template("array.push({}, {})", ARRAY, VECTOR),
        template("array.set(array.push({}, {}), 0, {})", ARRAY, VECTOR, VECTOR),
    ],
    TREE: [template("Leaf({})", VECTOR), template("Node({}, {}, {})", TREE, VECTOR, TREE)],
    STEP: [function, template("ref_read({})", STEP_REF)],
    REF: [template("ref({})", VECTOR)],
    STEP_REF: [template("ref({})", STEP)],
    DEEP: [template("(({}, 2), {})", VECTOR, LIST)],
}


Smooth.makers = MAKERS
Smooth.controls = [matched, written]


def smooth_program(seed: int, fuel: int) -> str:
    """Return the text of one program."""
    body = Smooth(seed).expr(SCALAR, (("%x", VECTOR),), fuel)
    text = f"{BASE}def @main(%x: T3) -> {SCALAR} {{ sum(tanh(%x)) + {body} }}\n"
    for short, long in NAMED.items():
        text = text.replace(short, long)
    return text.replace("'", '"')

"""Random programs whose order of evaluation can be seen: writes to references that the host holds,
and traps.

`effect_program(seed, fuel)` gives the text of a `main` of a number, a vector of four and a
reference, made by `cell`. It returns a number; what happened stands in the reference, digit by
digit. Another reference holds a function.
"""

from __future__ import annotations

from text_programs import Env, TextGenerator, template

BASE = """
def @log(%r: ref(int32), %k: int32) -> int32 {
  ref_write(%r, ref_read(%r) * 7 + %k);
  %k
}
def @pick[A](%c: bool, %a: A, %b: A) -> A { if (%c) { %a } else { %b } }
def @swap[A, B](%p: (A, B)) -> (B, A) { (%p.1, %p.0) }
def @down(%r: ref(int32), %n: int32) -> int32 {
  if (%n <= 0) { 0 } else { let %k = @log(%r, %n); @up(%r, %n - 1) + %k }
}
def @up(%r: ref(int32), %n: int32) -> int32 {
  if (%n <= 0) { 1 } else { let %k = @down(%r, %n - 2); @log(%r, %k) }
}
def @twice(%f: fn (int32) -> int32, %x: int32) -> int32 { %f(%f(%x)) }
def @walk(%l: List[int32], %f: fn (int32) -> int32) -> int32 {
  match (%l) { Cons(%a, Cons(%b, %t)) => %f(%a) - @walk(%t, %f), Cons(%a, _) => %a, Nil => 0 }
}
def @count(%a: Array[int32], %i: int32, %n: int32) -> int32 {
  if (%i == array.length(%a)) { %n } else { @count(%a, %i + 1, %n * 3 + array.get(%a, %i)) }
}
def @small(%x: int32) -> int32 { %x - (%x / 5) * 5 }
"""
NUMBER, PAIR, LIST, ARRAY = "int32", "(int32, bool)", "List[int32]", "Array[int32]"
STEP, LATE, REF = "fn (int32) -> int32", "fn () -> int32", "ref(int32)"
STEP_REF, OPTION = "ref(fn (int32) -> int32)", "Option[fn (int32) -> int32]"
VECTOR, ONE = "Tensor[(4), int32]", "Tensor[(1), int32]"


class Effects(TextGenerator):
    """Programs over int32."""

    kinds = (NUMBER, PAIR, LIST, ARRAY, STEP, REF, STEP_REF, LATE, VECTOR, OPTION)
    condition = ("{} < {}", NUMBER, NUMBER)

    def leaf(self, kind: str, env: Env) -> str:
        number = self.random.randrange(-2, 6)
        name = self.name()
        return {
            NUMBER: f"{number}",
            PAIR: f"({number}, True)",
            LIST: f"Cons({number}, Nil)",
            ARRAY: f"array.push(array.new(2), {number})",
            STEP: f"fn ({name}: int32) {{ @log(%r, {name}) }}",
            REF: "%r",
            STEP_REF: "%s",
            LATE: f"fn () {{ @log(%r, {number}) }}",
            VECTOR: "%v",
            ONE: "ones(shape=[1], dtype='int32')",
            OPTION: f"Some(fn ({name}: int32) {{ {name} + {number} }})",
        }[kind]


def matched(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    """Return a match, one in three of which is not complete."""
    data, head, tail = self.expr(LIST, env, fuel // 2), self.name(), self.name()
    full = self.expr(kind, (*env, (head, NUMBER), (tail, LIST)), fuel // 2)
    if self.random.randrange(3) == 0:
        return f"(match? ({data}) {{ Cons({head}, {tail}) => {full} }})"
    empty = self.expr(kind, env, fuel // 3)
    return f"(match ({data}) {{ Cons({head}, {tail}) => {full}, Nil => {empty} }})"


def chosen(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    """Return a match on a function that may be there."""
    data, held = self.expr(OPTION, env, fuel // 2), self.name()
    full, empty = self.expr(kind, (*env, (held, STEP)), fuel // 2), self.expr(kind, env, fuel // 3)
    return f"(match ({data}) {{ Some({held}) => {full}, None => {empty} }})"


def written(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    """Return a write to a reference in front of an expression."""
    which, held = self.random.choice([(REF, NUMBER), (STEP_REF, STEP)])
    target, name = self.expr(which, env, fuel // 3), self.name()
    value = self.expr(held, env, fuel // 2)
    rest = self.expr(kind, (*env, (name, which)), fuel // 2)
    return f"(let {name}: {which} = {target}; ref_write({name}, {value}); {rest})"


def function(program: TextGenerator, env: Env, fuel: int) -> str:
    name = program.name()
    return f"(fn ({name}: int32) {{ {program.expr(NUMBER, (*env, (name, NUMBER)), fuel)} }})"


def late(program: TextGenerator, env: Env, fuel: int) -> str:
    return f"(fn () {{ {program.expr(NUMBER, env, fuel)} }})"


Effects.controls = [matched, chosen, written, written]
Effects.makers = {
    NUMBER: [
        template("{} + {} * 3", NUMBER, NUMBER),
        template("{} - {}", NUMBER, NUMBER),
        template("@log(%r, {})", NUMBER),
        template("@log(%r, {})", NUMBER),
        template("ref_read({})", REF),
        template("ref_read({})({})", STEP_REF, NUMBER),
        template("{}({})", STEP, NUMBER),
        template("{}()", LATE),
        template("@twice({}, {})", STEP, NUMBER),
        template("@down(%r, @small({}))", NUMBER),
        template("@walk({}, {})", LIST, STEP),
        template("take({}, {})", VECTOR, NUMBER),
        template("take({}, {}, mode='fast')", VECTOR, NUMBER),
        template("sum(gather({}, reshape({}, newshape=[1])))", VECTOR, NUMBER),
        template("array.get({}, {})", ARRAY, NUMBER),
        template("array.length({})", ARRAY),
        template("{}.0", PAIR),
        template("@length({})", LIST),
        template("@foldl(fn (%a: int32, %b: int32) {{ @log(%r, %a - %b) }}, {}, {})", NUMBER, LIST),
    ],
    PAIR: [template("({}, {} < {})", NUMBER, NUMBER, NUMBER)],
    LIST: [
        template("Cons({}, {})", NUMBER, LIST),
        template("@map({}, {})", STEP, LIST),
        template("@rev({})", LIST),
        template("let %n: List[int32] = Nil; %n"),
    ],
    ARRAY: [
        template("array.push({}, {})", ARRAY, NUMBER),
        template("array.set({}, 0, {})", ARRAY, NUMBER),
        template("array.set({}, {}, {})", ARRAY, NUMBER, NUMBER),
    ],
    STEP: [function, template("ref_read({})", STEP_REF)],
    REF: [template("ref({})", NUMBER)],
    STEP_REF: [template("ref({})", STEP)],
    LATE: [late],
    VECTOR: [
        template("{} + {}", VECTOR, NUMBER),
        template("broadcast_to({}, shape=[4])", NUMBER),
        template("scatter_elements({}, reshape({}, newshape=[1]), {})", VECTOR, NUMBER, ONE),
    ],
    ONE: [template("reshape({}, newshape=[1])", NUMBER)],
    OPTION: [
        template("Some({})", STEP),
        template("let %n: Option[fn (int32) -> int32] = None; %n"),
    ],
}


class UsedTraps(Effects):
    """Programs whose every value that may trap goes into the reference at once, which nothing else
    writes: so no trap can be left out, or come sooner or later than it is written.
    """

    def leaf(self, kind: str, env: Env) -> str:
        return f"ref({self.random.randrange(-2, 6)})" if kind == REF else super().leaf(kind, env)


def told(self: TextGenerator, kind: str, env: Env, fuel: int) -> str:
    """Return a match that may not be complete and tells its number, in front of an expression."""
    name = self.name()
    known = matched(self, NUMBER, env, fuel // 2)
    rest = self.expr(kind, (*env, (name, NUMBER)), fuel // 2)
    return f"(let {name}: int32 = @log(%r, {known}); {rest})"


def made(self: TextGenerator, env: Env, fuel: int) -> str:
    """Return an array with another item, which is looked at."""
    name, at = self.name(), self.name()
    array, where = self.expr(ARRAY, env, fuel // 2), self.expr(NUMBER, env, fuel // 3)
    value = self.expr(NUMBER, env, fuel // 3)
    text = f"(let {at}: int32 = {where}; let {name}: {ARRAY} = array.set({array}, {at}, {value}); "
    return f"{text}let {at}: int32 = @log(%r, @count({name}, 0, 0)); {name})"


UsedTraps.controls = [told, chosen]
UsedTraps.makers = {
    **Effects.makers,
    NUMBER: [
        *Effects.makers[NUMBER][:11],
        *Effects.makers[NUMBER][-5:-2],
        template("@log(%r, take({}, {}))", VECTOR, NUMBER),
        template("@log(%r, sum(gather({}, reshape({}, newshape=[1]))))", VECTOR, NUMBER),
        template("@log(%r, array.get({}, {}))", ARRAY, NUMBER),
        template("@log(%r, sum({}))", VECTOR),
    ],
    ARRAY: [template("array.push({}, {})", ARRAY, NUMBER), made],
    VECTOR: [template("{} + {}", VECTOR, NUMBER), template("{} * {}", VECTOR, VECTOR)],
}


def effect_program(seed: int, fuel: int, kind: type[Effects] = Effects) -> str:
    """Return the text of one program."""
    env = (("%x", NUMBER), ("%v", VECTOR), ("%s", STEP_REF))
    env += (("%r", REF),) if kind is Effects else ()
    body = kind(seed).expr(NUMBER, env, fuel)
    params = f"%x: int32, %v: {VECTOR}, %r: ref(int32), %s: {STEP_REF}"
    entry = f"def @main(%x: int32, %v: {VECTOR}, %r: ref(int32)) -> int32 {{\n"
    entry += "  let %s = ref(fn (%a: int32) -> int32 { @log(%r, %a + 1) });\n"
    entry += "  @body(%x, %v, %r, %s) }\ndef @cell() -> ref(int32) { ref(0) }\n"
    text = f"{BASE}def @body({params}) -> int32 {{ {body} }}\n{entry}"
    return text.replace("'", '"')

"""Types to be found that meet polymorphic functions: one instance where that fits all uses, else
the function with its type parameters.
"""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import relayvm
from relayvm.base.diagnostics import RelayError
from relayvm.compiler.evaluate import Evaluator
from relayvm.compiler.infer_types import infer_type_local, infer_types
from relayvm.ir.printer import print_module, print_type
from relayvm.ir.verify import verify_module
from relayvm.ir.visit import post_order

ID = "fn [A](%a: A) -> A { %a }"
SAME = "fn [B](%b: B) -> B { let %z = (%b, 1); %z.0 }"
POLY = "fn [A](A) -> A"
HEAD = """type Pair[A, B] { Pair(A, B) }
def @same[A](%a: A) -> A { %a }
def @both(%f: fn [A](A) -> A, %x: int32) { (%f(%x), %f(True)) }
def @size(%l: List[fn [A](A) -> A]) { @length(%l) }
"""

# The body of a function of `%x`, and the type of `%v` in it.
PROGRAMS = {
    "in a reference": (
        f"let %v = ref({ID}); (ref_read(%v)(True), ref_read(%v)(%x))",
        f"ref({POLY})",
    ),
    "a global in a reference": (
        "let %v = ref(@same); (ref_read(%v)(True), ref_read(%v)(%x))",
        f"ref({POLY})",
    ),
    "written": (
        f"let %v = ref({ID}); ref_write(%v, {SAME}); (ref_read(%v)(True), ref_read(%v)(%x))",
        f"ref({POLY})",
    ),
    "one type is enough, before": (
        f"let %v = ref({ID}); ref_write(%v, fn (%b: int32) {{ %b + 1 }}); (ref_read(%v)(%x), 1)",
        "ref(fn (int32) -> int32)",
    ),
    "one type is enough, after": (
        f"""let %v = ref({ID}); let %a = ref_read(%v)(%x);
        ref_write(%v, fn (%b: int32) {{ %b + 1 }}); (%a, ref_read(%v)(%x))""",
        "ref(fn (int32) -> int32)",
    ),
    "a choice": (
        f"let %v = if (%x < 1) {{ {ID} }} else {{ {SAME} }}; (%v(%x), %v(True))",
        POLY,
    ),
    "a choice of one type": (f"let %v = if (%x < 1) {{ {ID} }} else {{ {SAME} }}; %v(%x)", None),
    "a match": (
        f"""let %v = match (Cons(%x, Nil)) {{ Nil => {ID}, Cons(_, _) => @same }};
        (%v(%x), %v(True))""",
        POLY,
    ),
    "in a list": (
        f"let %v = Cons({ID}, Nil); match? (%v) {{ Cons(%g, _) => (%g(%x), %g(True)) }}",
        f"List[{POLY}]",
    ),
    "in data that nothing looks at": (
        f"let %i = {ID}; let %v = Pair(1, %i); %x",
        f"Pair[int32, {POLY}]",
    ),
    "in a list that is only counted": (f"let %v = Cons({ID}, Nil); @length(%v)", f"List[{POLY}]"),
    "given to a function that nothing looks at": (
        f"let %i = {ID}; let %v = %i((5, %i)); %x",
        f"(int32, {POLY})",
    ),
    "what a function gives back": (
        f"let %i = {ID}; let %v = %i(%i); (%v(%x), %v(True))",
        POLY,
    ),
    "a global in a tuple": ("let %v = (@same, 1); (%v.0(%x), %v.0(True))", f"({POLY}, int32)"),
    "a global in a tuple that nothing looks at": ("let %v = (@same, 1); %x", f"({POLY}, int32)"),
    "a constructor in a tuple": (
        """let %v = (Some, 1);
        match? ((%v.0(%x), %v.0(True))) { (Some(%y), Some(%z)) => (%y, %z) }""",
        "(fn [A](A) -> Option[A], int32)",
    ),
    "one by way of another": (
        f"""let %r = ref({ID}); let %s = ref(ref_read(%r)); let %v = ref((ref_read(%s), 1));
        (ref_read(%v).0(True), ref_read(%v).0(%x))""",
        f"ref(({POLY}, int32))",
    ),
    "each as it needs": (
        f"""let %r = ref({ID}); ref_write(%r, fn (%b: int32) {{ %b * 2 }});
        let %v = ref({ID}); (ref_read(%v)(True), ref_read(%v)(ref_read(%r)(%x)))""",
        f"ref({POLY})",
    ),
    "a parameter that goes where one is declared": (
        "let %v = fn (%f) { @both(%f, %x) }; %v(@same)",
        f"fn ({POLY}) -> (int32, bool)",
    ),
    "where a list of them is declared": (
        f"let %v = Cons({ID}, Cons(@same, Nil)); (@size(%v), @size(Nil))",
        f"List[{POLY}]",
    ),
    "of each size": (
        """
        let %v = ref(fn [n, A](%t: Tensor[(n,), int32], %a: A) -> (int32, A) { (sum(%t), %a) });
        (ref_read(%v)(full(%x, shape=[3], dtype="int32"), 1),
         ref_read(%v)(full(%x, shape=[2], dtype="int32"), True))""",
        "ref(fn [n, A](Tensor[(n), int32], A) -> (int32, A))",
    ),
}


def module_of(body: str) -> relayvm.Module:
    return infer_types(relayvm.parse(f"{HEAD}def @main(%x: int32) {{ {body} }}"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_place_takes_the_polymorphic_function_where_no_instance_fits(name):
    body, kind = PROGRAMS[name]
    module = module_of(body)
    verify_module(module, typed=True)
    lets = {n.var.name: n.var for n in post_order(module["main"]) if hasattr(n, "var")}
    if kind is not None:
        assert print_type(lets["v"].type_annotation) == kind
    text = print_module(module, show_types=True)
    assert print_module(infer_types(relayvm.parse(text)), show_types=True) == text
    expected = repr(Evaluator(module).call("main", [np.int32(3)]))
    for level in range(4):
        exe = relayvm.compile(module, opt_level=level, entries=["main"])
        for engine in ("interpreter", "jit"):
            machine = relayvm.VirtualMachine(exe, engine=engine)
            assert repr(machine.run(np.int32(3))) == expected


REFUSED = {
    # What is known by two types must not take what one of them does not expect.
    "a reference": "let %r: ref(fn [A](A) -> A) = ref(@same);"
    " let %s: ref(fn (int32) -> int32) = %r; 1",
    "a reference of a less general function": "let %r = ref(fn [A, B](%a: A, %b: B) { %a });"
    " let %k: ref(fn [A, B](A, B) -> A) = %r; let %s: ref(fn [A](A, A) -> A) = %k; 1",
    "a reference in data": "let %r: Held[fn [A](A) -> A] = Held(ref(@same));"
    " let %s: Held[fn (int32) -> int32] = %r; 1",
    "data that takes": "let %r: Taken[fn [A](A) -> A] = Taken(fn (%f: fn [A](A) -> A) { 1 });"
    " let %s: Taken[fn (int32) -> int32] = %r; 1",
    "a parameter": "let %f = fn (%q: ref(fn [A](A) -> A)) { 1 };"
    " let %g: fn (ref(fn (int32) -> int32)) -> int32 = %f; 1",
    # Type parameters stay inside of their functions.
    "written to a reference outside": "let %r = ref(None);"
    " let %f = fn [A](%a: A) -> A { ref_write(%r, Some(%a)); %a }; %f(%x)",
    "sizes written to a reference outside": "let %r = ref(None);"
    " let %f = fn [n](%a: Tensor[(n), int32]) { ref_write(%r, Some(%a)); 1 }; 1",
    "written to a parameter": "let %g = fn (%r) { fn [A](%a: A) -> A { ref_write(%r, Some(%a)); %a"
    " } }; %g(ref(None))(%x)",
    "nested": "let %f = fn [A](%a: A) -> A { let %r = ref(None);"
    " let %g = fn [B](%b: B) -> B { ref_write(%r, Some(%b)); %b }; %g(1); %g(%a) }; %f(%x)",
}
REFUSED_HEAD = """
type Held[A] { Held(ref(A)) }
type Taken[A] { Taken(fn (A) -> int32) }
def @same[A](%a: A) -> A { %a }
"""


@pytest.mark.parametrize("name", REFUSED)
def test_types_that_do_not_hold_are_refused(name):
    with pytest.raises(RelayError) as caught:
        infer_types(relayvm.parse(f"{REFUSED_HEAD}def @main(%x: int32) {{ {REFUSED[name]} }}"))
    assert {d.code for d in caught.value.diagnostics} <= {"type-mismatch", "shape-mismatch"}
    assert all(d.span is not None for d in caught.value.diagnostics)


TAKEN = {
    "a global whose parameters are inside of types": "let %f: fn [A](List[A]) -> int32 = @length;"
    " (%f(Cons(1, Nil)), %f(Cons(True, Nil)))",
    "a function that takes one": "let %g = fn (%f: fn [A]((A, A)) -> A) { (%f((1, 2)),"
    " %f((True, False))) }; %g(@first)",
    "data that is read only": "let %r: List[fn [A](A) -> A] = Cons(@same, Nil);"
    " let %s: List[fn (int32) -> int32] = %r; match? (%s) { Cons(%f, _) => %f(%x) }",
    "a reference of a more general function": "let %r: ref(fn [A](A, A) -> A) = ref(@const);"
    " (ref_read(%r)(%x, 1), ref_read(%r)(True, False))",
    "an argument that is a reference of a more general function": "let %g = fn (%r: (ref(fn [A](A,"
    " A) -> A), int32)) { ref_read(%r.0)(%x, %r.1) };"
    " (%g((ref(@const), 1)), @held(ref(@const), 2))",
    "a reference of functions that take polymorphic ones": "let %r = ref(@app);"
    " let %v: fn (int32) -> int32 = ref_read(%r)(fn (%y: fn [A](A) -> A) { %y }, @same); %v(%x)",
    "a choice of a more general function": "let %f: fn [A](A, A) -> A = if (%x < 4) { @const }"
    " else { fn [A](%a: A, %b: A) -> A { %b } }; (%f(%x, 1), %f(True, False))",
    "a reference by other names": "let %r: ref(fn [A](A) -> A) = ref(fn [B](%b: B) -> B { %b });"
    " (ref_read(%r)(%x), ref_read(%r)(True))",
    "a reference with sizes by other names": "let %r: ref(fn [n](Tensor[(n), int32]) ->"
    " Tensor[(n), int32]) = ref(fn [m](%b: Tensor[(m), int32]) -> Tensor[(m), int32] { %b });"
    " ref_read(%r)(ones(shape=[3], dtype=int32))",
}
TAKEN_HEAD = """
def @first[A](%p: (A, A)) -> A { %p.0 }
def @const[A, B](%a: A, %b: B) -> A { %a }
def @app[A](%f: fn (A) -> A, %a: A) -> A { %f(%a) }
def @held(%r: ref(fn [A](A, A) -> A), %x: int32) -> int32 { ref_read(%r)(%x, %x) }
"""


@pytest.mark.parametrize("name", TAKEN)
def test_functions_go_where_they_are_as_general(name):
    head = f"{REFUSED_HEAD}{TAKEN_HEAD}"
    module = infer_types(relayvm.parse(f"{head}def @main(%x: int32) {{ {TAKEN[name]} }}"))
    verify_module(module)
    again = infer_types(relayvm.parse(print_module(module, show_types=True)))
    assert print_module(again) == print_module(module)
    expected = Evaluator(module).call("main", [np.int32(3)])
    for level in (0, 3):
        machine = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level))
        assert repr(machine.run(np.int32(3))) == repr(expected)


def test_a_long_way_of_places_needs_no_recursion():
    steps = "".join(f"let %r{i + 1} = ref(ref_read(%r{i})); " for i in range(1_000))
    module = module_of(f"let %r0 = ref({ID}); {steps} ref_read(%r1000)(%x)")
    lets = {n.var.name: n.var for n in post_order(module["main"]) if hasattr(n, "var")}
    types = {print_type(var.type_annotation) for name, var in lets.items() if name != "x"}
    assert types == {"ref(fn (int32) -> int32)"}


def test_functions_are_followed_from_place_to_place():
    steps = "".join(f"let %r{i + 1} = ref(ref_read(%r{i})); " for i in range(60))
    module = module_of(f"let %r0 = ref({ID}); {steps} (ref_read(%r60)(%x), ref_read(%r60)(True))")
    assert print_type(module["main"].ret_type) == "(int32, bool)"
    steps = "".join(
        f"let %o{i + 1} = match (%o{i}) {{ Some(%f{i}) => Some(%f{i}), None => None }}; "
        for i in range(20)
    )
    module_of(f"let %o0 = Some({ID}); {steps} match? (%o20) {{ Some(%f) => (%f(%x), %f(True)) }}")


def test_the_error_says_that_the_search_ended_and_where(monkeypatch):
    monkeypatch.setattr("relayvm.compiler.infer_types.MOST_ROUNDS", 3)
    steps = "".join(f"let %r{i + 1} = ref(ref_read(%r{i})); " for i in range(8))
    with pytest.raises(RelayError) as caught:
        module_of(f"let %r0 = ref({ID}); {steps} (ref_read(%r8)(%x), ref_read(%r8)(True))")
    (note,) = caught.value.diagnostics[0].notes[-1:]
    assert "ended after 3 rounds: the type of the reference" in note.message
    assert note.span is not None and "ref_read(%r" in note.span.source.text[note.span.begin :][:20]


@pytest.mark.parametrize(
    ("uses", "kind"),
    [
        (["ref_read(%v)(True)", "ref_read(%v)(%x)", f"ref_write(%v, {SAME})"], POLY),
        (
            ["ref_write(%v, fn (%b: int32) { %b })", "ref_read(%v)(%x)", f"ref_write(%v, {SAME})"],
            "fn (int32) -> int32",
        ),
    ],
)
def test_the_order_of_the_uses_does_not_matter(uses, kind):
    for some in permutations(uses):
        module = module_of(f"let %v = ref({ID}); {'; '.join(some)}; %x")
        assert print_type(module["main"].body.var.type_annotation) == f"ref({kind})"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "@both(fn (%y) { %y }, %x)",
            "argument 1 of `@both` is `fn (A) -> A`, but must be `fn [A](A) -> A`",
        ),
        (
            "let %k = fn (%f) { (@both(%f, %x), %f(1)) }; %k(fn (%y: int32) { %y + 1 })",
            "argument 1 of `%k` is `fn (int32) -> int32`, but must be `fn [A](A) -> A`",
        ),
        (
            """let %r = ref(Nil);
            let %f: fn [A](A) -> A = fn (%a) { ref_write(%r, Cons(%a, Nil)); %a }; %f(1)""",
            "`%f` is declared as `fn [A](A) -> A`, but its value is `fn (A) -> A`",
        ),
        (
            f"let %r = ref({ID}); (ref_read(%r)(True) + 1, ref_read(%r)(%x))",
            "operand `lhs` of `add` must be a tensor of numbers, got bool",
        ),
    ],
    ids=["no parameters", "an instance", "a parameter that escapes", "another error"],
)
def test_what_is_no_polymorphic_function_is_not_taken_for_one(body, message):
    with pytest.raises(RelayError) as caught:
        module_of(body)
    assert [d.message for d in caught.value.diagnostics] == [message]


def test_the_type_of_one_node_may_hold_a_polymorphic_function():
    module = module_of(PROGRAMS["in a reference"][0])
    held = next(n for n in post_order(module["main"]) if type(n).__name__ == "RefCreate")
    assert print_type(infer_type_local(held, module)) == f"ref({POLY})"

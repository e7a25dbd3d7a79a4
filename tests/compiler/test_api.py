"""What the names that users call say to wrong arguments."""

from __future__ import annotations

import numpy as np
import pytest

import relayvm

MODULE = relayvm.parse("def @main(%x: int32) -> int32 { %x }")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: relayvm.compile("def @main() { 1 }"), "is a `Module`, but `str` was given"),
        (lambda: relayvm.compile(MODULE, opt_level="3"), "`opt_level` is '3'"),
        (lambda: relayvm.compile(MODULE, opt_level=5), "from 0 to 4"),
        (lambda: relayvm.compile(MODULE, entries="main"), "a list of names"),
        (lambda: relayvm.parse(None), "text or a path, not a `NoneType`"),
        (lambda: relayvm.parse("def @main() { 1 }", operators=["x"]), "no operator"),
        (lambda: relayvm.load(None), "a path or bytes, not a `NoneType`"),
        (lambda: relayvm.VirtualMachine(None), "runs an Executable, not a `NoneType`"),
        (lambda: relayvm.compile(MODULE).save("/no/such/folder/x.rvm"), "cannot be written"),
        (lambda: relayvm.load("/no/such/file.rvm"), "file.rvm"),
        (lambda: relayvm.parse("missing.relay"), "`missing.relay` cannot be read"),
    ],
)
def test_wrong_arguments_get_a_diagnostic(call, message) -> None:
    with pytest.raises(relayvm.RelayError, match=message):
        call()


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('def @main() { zeros(shape=(4611686018427387904, 4), dtype="float32") }', "1:15"),
        ("def @main(%x: Tensor[(9223372036854775807), float32]) { %x }", "1:11"),
        ("def @main(%a: float32) { sum(broadcast_to(%a, shape=(4000000, 4000000000))) }", "1:30"),
        ("def @main(%t: (int32, Tensor[(70368744177664), bool])) { %t.0 }", "1:11"),
    ],
)
def test_a_size_that_no_machine_holds_is_refused_where_it_comes_from(text, place) -> None:
    with pytest.raises(relayvm.RelayError, match=r"more than 2\^46 bytes") as caught:
        relayvm.compile(relayvm.parse(text))
    assert caught.value.code == "size-overflow"
    assert str(caught.value.span).endswith(place)


def test_a_polymorphic_program_says_how_to_name_an_instance() -> None:
    with pytest.raises(relayvm.RelayError, match=r"entries=\['main\[int32\]'\]"):
        relayvm.compile(relayvm.parse("def @main[A](%x: A) -> A { %x }"))


def test_a_trap_in_the_library_stands_at_the_users_line() -> None:
    text = "def @main(%l: List[int32]) -> int32 {\n  @hd(%l) + 1\n}\n"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text, name="u.relay")))
    with pytest.raises(relayvm.Trap, match=r"u\.relay:2:3"):
        vm.run([])


def test_a_frame_names_the_function_in_which_its_line_is_written() -> None:
    text = """
def @first(%l: List[int32]) -> int32 {
  match? (%l) { Cons(%x, _) => %x }
}
def @main(%l: List[int32]) -> int32 { @first(%l) + 1 }
"""
    module = relayvm.parse(text, name="u.relay")
    for level, frame in (
        (0, "@first (u.relay:3:3)"),
        (3, "@first, inlined into @main (u.relay:3:3)"),
    ):
        vm = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level))
        with pytest.raises(relayvm.Trap) as caught:
            vm.run([])
        assert caught.value.stack[0] == frame


@pytest.mark.parametrize("level", [0, 3])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("(%x,)", (1.0,)),
        ("((%x,),)", ((1.0,),)),
        ("((),)", ((),)),
        ("(sum(%v),)", (6.0,)),
        ("((%x, %x),)", ((1.0, 1.0),)),
        ("()", ()),
    ],
)
def test_tuples_of_one_field_are_tuples(level, body, expected) -> None:
    text = f"def @main(%x: float32, %v: Tensor[(3), float32]) {{ {body} }}"
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text), opt_level=level))
    result = vm.run(np.float32(1), np.array([1, 2, 3], np.float32))
    assert result == expected


def test_a_closure_and_a_recursion_return_tuples_of_one_field() -> None:
    text = """
    def @count(%n: int32) -> (int32,) {
      if (%n == 0) { (0,) } else { let %r = @count(%n - 1); (%r.0 + %n,) }
    }
    def @main(%x: int32) { fn () { (%x * 2,) } }
    """
    vm = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    assert vm.invoke("count", 4) == (10,)
    assert vm.run(21)() == (42,)


@pytest.mark.parametrize(
    "call",
    [
        lambda: relayvm.compile(MODULE, params=[1]),
        lambda: relayvm.compile(MODULE, params={"x": [[1], [1, 2]]}),
        lambda: relayvm.compile(MODULE, target=None),
        lambda: relayvm.compile(MODULE, entries=[3]),
        lambda: relayvm.compile(MODULE, entries=5),
        lambda: relayvm.compile(MODULE, entries=["main[int32"]),
        lambda: relayvm.compile(MODULE, opt_level=True),
        lambda: relayvm.compile(MODULE).save(None),
    ],
)
def test_options_of_another_kind_get_a_diagnostic(call) -> None:
    with pytest.raises(relayvm.RelayError):
        call()


def test_a_number_that_float32_does_not_hold_is_not_bound() -> None:
    module = relayvm.parse("def @main(%x: Tensor[(2), float32]) { %x }")
    with pytest.raises(relayvm.RelayError, match="float64"):
        relayvm.compile(module, params={"x": [1e300, 1]})


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("expand_dims(%x, axis=0, num_newaxis=2147483648)", "rank-limit"),
        ("split(%x, indices_or_sections=1000000)", "bad-attribute"),
        ("strided_slice(%x, begin=[9223372036854775808], end=[1])", "bad-attribute"),
        ("strided_slice(%x, begin=[0], end=[2], strides=[-9223372036854775808])", "bad-attribute"),
    ],
)
def test_attributes_beyond_reason_are_refused_at_once(call, code) -> None:
    with pytest.raises(relayvm.RelayError) as caught:
        relayvm.compile(relayvm.parse(f"def @main(%x: Tensor[(?), float32]) {{ {call} }}"))
    assert caught.value.code == code


@pytest.mark.parametrize("level", [0, 3])
def test_a_trap_in_a_kernel_stands_at_the_operator_that_compares(level) -> None:
    text = """
def @main(%a: Tensor[(?), float32], %b: Tensor[(?), float32]) {
  let %s = %a + %b;
  let %u = tanh(%s);
  sum(exp(%u))
}
"""
    module = relayvm.parse(text, name="u.relay")
    vm = relayvm.VirtualMachine(relayvm.compile(module, opt_level=level))
    with pytest.raises(relayvm.Trap, match=r"u\.relay:3:12") as caught:
        vm.run(np.ones(3, np.float32), np.ones(2, np.float32))
    assert caught.value.message.endswith("3 and 2")


def test_an_instance_of_a_data_type_is_found_in_any_spelling() -> None:
    executable = relayvm.compile(
        relayvm.parse("def @main(%l: List[Tensor[(3,), float32]]) { @length(%l) }")
    )
    machine = relayvm.VirtualMachine(executable)
    for name in ("List[Tensor[(3,), float32]]", "List[Tensor[(3), float32]]"):
        items = executable.adt(name)
        x = np.zeros(3, np.float32)
        assert machine.run(items.Cons(x, items.Nil())) == 1


def test_a_module_prints_as_its_text() -> None:
    text = "def @main(%x: Tensor[(2, 3), float32]) -> Tensor[(2, 3), float32] {\n  tanh(%x)\n}\n"
    assert str(relayvm.parse(text)) == text

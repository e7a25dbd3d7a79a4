"""Values that a program gave go back only where their sizes are those that are declared."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import relayvm
from relayvm import relay
from relayvm.vm import convert
from relayvm.vm.convert import Converter
from relayvm.vm.sizes import number_of

TEXT = """
type Bt[n: ShapeVar] { Bt(Tensor[(n), float32]) }
type F[n: ShapeVar] { F(fn () -> Tensor[(n), float32]) }
type Ring[n: ShapeVar] { End, Ring(Tensor[(n), float32], ref(Ring[n])) }
type Twin[n: ShapeVar] { Leaf(Tensor[(n), float32]), Twin(Twin[n], Twin[n]) }

def @bt(%x: Tensor[(2), float32]) -> Bt[2] { Bt(%x) }
def @bt_any(%x: Tensor[(?), float32]) -> Bt[?] { Bt(%x) }
def @bt_named[n](%x: Tensor[(n), float32]) -> Bt[n] { Bt(%x) }
def @list(%x: Tensor[(2), float32]) -> List[List[Bt[2]]] { Cons(Nil, Cons(Cons(Bt(%x), Nil), Nil)) }
def @empty(%x: Tensor[(2), float32]) -> List[List[Bt[2]]] { Nil }
def @pair(%x: Tensor[(2), float32]) -> (int32, Bt[2]) { (1, Bt(%x)) }
def @array(%x: Tensor[(2), float32]) -> Option[Array[Bt[2]]] {
  Some(array.push(array.new(1), Bt(%x)))
}
def @box(%x: Tensor[(2), float32]) -> ref(Bt[2]) { ref(Bt(%x)) }
def @option(%x: Tensor[(2), float32]) -> Option[ref(Tensor[(2), float32])] { Some(ref(%x)) }
def @fun(%x: Tensor[(2), float32]) -> fn () -> Tensor[(2), float32] { fn () { %x } }
def @fun_any(%x: Tensor[(?), float32]) -> fn () -> Tensor[(?), float32] { fn () { %x } }
def @fun_named[n](%x: Tensor[(n), float32]) -> fn () -> Tensor[(n*2), float32] {
  fn () { concatenate((%x, %x)) }
}
def @data_named[n](%x: Tensor[(n), float32]) -> F[n] { F(fn () { %x }) }
def @fun_fun[n](%x: Tensor[(n), float32]) -> fn () -> fn () -> Tensor[(n), float32] {
  fn () { fn () { %x } }
}
def @takes(%x: Tensor[(2), float32]) -> fn (Tensor[(2), float32]) -> Tensor[(2), float32] {
  fn (%y: Tensor[(2), float32]) { %x + %y }
}
def @ring(%x: Tensor[(2), float32]) -> Ring[2] {
  let %r = ref(End);
  let %all = Ring(%x, %r);
  ref_write(%r, %all);
  %all
}
def @twin(%x: Tensor[(2), float32], %i: int32) -> Twin[2] {
  if (%i == 0) { Leaf(%x) } else { let %t = @twin(%x, %i - 1); Twin(%t, %t) }
}

def @to_bt2(%b: Bt[2]) { match (%b) { Bt(%x) => %x } }
def @to_bt(%b: Bt[3]) { match (%b) { Bt(%x) => %x } }
def @to_bt_any(%b: Bt[?]) { match (%b) { Bt(%x) => %x } }
def @to_list(%b: List[List[Bt[3]]]) -> int32 { @length(%b) }
def @to_pair(%b: (int32, Bt[3])) { %b.0 }
def @to_array(%b: Option[Array[Bt[3]]]) { 1 }
def @to_box(%b: ref(Bt[3])) { match (ref_read(%b)) { Bt(%x) => %x } }
def @to_option(%b: Option[ref(Tensor[(3), float32])]) { 1 }
def @to_fun(%b: fn () -> Tensor[(3), float32]) { %b() }
def @to_fun4(%b: fn () -> Tensor[(4), float32]) { %b() }
def @to_data(%b: F[3]) { match (%b) { F(%f) => %f() } }
def @to_data2(%b: F[2]) { match (%b) { F(%f) => %f() } }
def @to_fun2(%b: fn () -> Tensor[(2), float32]) { %b() }
def @to_takes(%b: fn (Tensor[(3), float32]) -> Tensor[(2), float32]) { 1 }
def @to_ring(%b: Ring[3]) { 1 }
def @to_twin(%b: Twin[3]) { 1 }
"""
LONG = """
def @grow(%l: List[Bt[?]], %x: Tensor[(?), float32], %i: int32) -> List[Bt[?]] {
  if (%i == 0) { %l } else { @grow(Cons(Bt(%x), %l), %x, %i - 1) }
}
def @length2(%l: List[Bt[2]]) -> int32 { @length(%l) }
"""
TWO = np.arange(2, dtype=np.float32)
TENSOR = "is `Tensor[(3), float32]`, but `Tensor[(2), float32]` was given"
REFUSED = {
    ("bt", "to_bt"): f"field 0 of `Bt` in `b` of `to_bt` {TENSOR}",
    ("bt_any", "to_bt"): f"field 0 of `Bt` in `b` of `to_bt` {TENSOR}",
    ("bt_named", "to_bt"): f"field 0 of `Bt` in `b` of `to_bt` {TENSOR}",
    ("list", "to_list"): "field 0 of `Bt` in field 0 of `Cons` in field 0 of `Cons` in "
    f"field 1 of `Cons` in `b` of `to_list` {TENSOR}",
    ("pair", "to_pair"): f"field 0 of `Bt` in field 1 of `b` of `to_pair` {TENSOR}",
    ("array", "to_array"): "field 0 of `Bt` in item 0 of field 0 of `Some` in "
    f"`b` of `to_array` {TENSOR}",
    ("box", "to_box"): f"field 0 of `Bt` in the content of `b` of `to_box` {TENSOR}",
    ("option", "to_option"): f"the content of field 0 of `Some` in `b` of `to_option` {TENSOR}",
    ("fun", "to_fun"): "`b` of `to_fun` is `fn () -> Tensor[(3), float32]`, but "
    "`fn () -> Tensor[(2), float32]` was given",
    ("fun_any", "to_fun"): "`b` of `to_fun` is `fn () -> Tensor[(3), float32]`, but "
    "`fn () -> Tensor[(?), float32]` was given",
    ("takes", "to_takes"): "`b` of `to_takes` is `fn (Tensor[(3), float32]) -> "
    "Tensor[(2), float32]`, but `fn (Tensor[(2), float32]) -> Tensor[(2), float32]` was given",
    ("ring", "to_ring"): f"field 0 of `Ring` in `b` of `to_ring` {TENSOR}",
}
TAKEN = [
    ("bt", "to_bt2"),
    ("bt", "to_bt_any"),
    ("bt_any", "to_bt2"),
    ("bt_named", "to_bt2"),
    ("empty", "to_list"),
    ("fun", "to_fun2"),
    ("fun_named", "to_fun4"),
    ("data_named", "to_data2"),
]


class _Machine:
    def __init__(self, executable: Any, many: bool = False) -> None:
        self.machine = relayvm.VirtualMachine(executable)
        self.many = many

    def __call__(self, name: str, *args: Any) -> Any:
        if self.many:
            return self.machine.invoke_many(name, [args])[0]
        return self.machine.invoke(name, *args)


class _Debug:
    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, name: str, *args: Any) -> Any:
        executor = relay.create_executor("debug", mod=self.module)
        return executor.evaluate(self.module.get_global_var(name))(*args)


@pytest.fixture(scope="module", params=["machine", "many", "reloaded", "debug"])
def run(request: Any, tmp_path_factory: Any) -> Any:
    if request.param == "debug":
        return _Debug(relay.fromtext(TEXT))
    executable = relayvm.compile(relayvm.parse(TEXT))
    if request.param == "reloaded":
        path = Path(tmp_path_factory.mktemp("sizes")) / "sizes.rvm"
        executable.save(path)
        executable = relayvm.load(path, native=True)
    return _Machine(executable, request.param == "many")


@pytest.mark.parametrize("giver, taker", REFUSED)
def test_values_of_other_sizes_are_refused(run: Any, giver: str, taker: str) -> None:
    value = run(giver, TWO)
    with pytest.raises(relayvm.RelayError) as caught:
        run(taker, value)
    assert caught.value.diagnostics[0].message == REFUSED[giver, taker]


@pytest.mark.parametrize("giver, taker", TAKEN)
def test_values_of_the_sizes_that_are_declared_are_taken(run: Any, giver: str, taker: str) -> None:
    run(taker, run(giver, TWO))


@pytest.mark.parametrize(
    "giver, taker", [("fun_named", "to_fun"), ("data_named", "to_data"), ("fun_fun", "to_fun")]
)
def test_functions_know_the_sizes_that_a_call_gave_names(run: Any, giver: str, taker: str) -> None:
    value = run(giver, TWO)
    value = value() if giver == "fun_fun" else value
    with pytest.raises(relayvm.RelayError) as caught:
        run(taker, value)
    message = caught.value.diagnostics[0].message
    assert "fn () -> Tensor[(3), float32]`" in message
    number = 4 if giver == "fun_named" else 2
    assert f"Tensor[({number})" in message or "`n` = 2" in message


SUMS = {
    "n + m": "concatenate((%x, %y))",
    "n*n": "reshape(dyn.tile(%x, shape_of(%x)), newshape=[n * n])",
    "n*m + n": "concatenate((reshape(dyn.tile(%x, shape_of(%y)), newshape=[n * m]), %x))",
}


@pytest.mark.parametrize("dim", SUMS)
def test_functions_know_sizes_that_several_names_make(dim: str) -> None:
    text = f"""
    def @give[n, m](%x: Tensor[(n), float32], %y: Tensor[(m), float32])
        -> fn () -> Tensor[({dim}), float32] {{ fn () {{ {SUMS[dim]} }} }}
    def @take5(%f: fn () -> Tensor[(5), float32]) {{ %f() }}
    """
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    for n, m in [(2, 3), (3, 2), (4, 1), (1, 4)]:
        given = machine.invoke("give", np.zeros(n, np.float32), np.zeros(m, np.float32))
        if given().size == 5:
            assert machine.invoke("take5", given).size == 5
            continue
        with pytest.raises(relayvm.RelayError, match="`fn ()"):
            machine.invoke("take5", given)


@pytest.mark.parametrize(
    "text, number",
    [
        ("n + m", 5),
        ("0 - n*m + 7", 1),
        ("-n", -2),
        ("((n + 5) // m)*n + (m % n)", 5),
        ("min(n, m) + max(n, in)", 9),
        ("broadcast(1, m)", 3),
        ("broadcast(n, m)", None),
        ("(n // (n - 2))", None),
        ("n + k", None),
        ("n +", None),
        ("+".join(["n"] * 100_000), None),
        ("(" * 1000 + "n" + ")" * 1000, None),
    ],
)
def test_a_size_with_names_is_a_number_once_they_are(text: str, number: int | None) -> None:
    assert number_of(text, {"n": 2, "m": 3, "in": 7}) == number


def test_shared_parts_are_looked_at_once(run: Any) -> None:
    if isinstance(run, _Debug):
        pytest.skip("the evaluator makes values anew")
    value = run("twin", TWO, 200)
    with pytest.raises(relayvm.RelayError, match="wrong-argument"):
        run("to_twin", value)


def test_long_lists_are_looked_at_without_recursion() -> None:
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(TEXT + LONG)))
    made = machine.invoke("grow", [], TWO, 100_000)
    assert machine.invoke("length2", made) == 100_000
    made = machine.invoke("grow", [], np.zeros(3, np.float32), 1)
    longer = machine.invoke("grow", made, TWO, 100_000)
    with pytest.raises(relayvm.RelayError, match=r"`Tensor\[\(3\), float32\]` was given"):
        machine.invoke("length2", longer)
    del made, longer
    gc.collect()


def test_a_function_deep_inside_is_told_with_its_sizes() -> None:
    text = """
    type Chain[n: ShapeVar] { Stop(fn () -> Tensor[(n), float32]), More(int32, Chain[n]) }
    def @chain[n](%x: Tensor[(n), float32], %i: int32) -> Chain[n] {
      if (%i == 0) { Stop(fn () { %x }) } else { More(%i, @chain(%x, %i - 1)) }
    }
    def @take3(%c: Chain[3]) -> int32 { 1 }
    """
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(text)))
    for length, place in [(1, "field 0 of `Stop` in field 1 of `More` in `c`"), (1000, "`c`")]:
        made = machine.invoke("chain", TWO, length)
        with pytest.raises(relayvm.RelayError, match=place) as caught:
            machine.invoke("take3", made)
        message = caught.value.diagnostics[0].message
        declared = "is `fn () -> Tensor[(3), float32]`, but `fn () -> "
        assert message.endswith(f"{declared}Tensor[(n), float32]` with `n` = 2 was given")
    assert machine.invoke("take3", machine.invoke("chain", np.zeros(3, np.float32), 1000)) == 1


def test_refusing_a_long_value_reads_few_of_its_parts(monkeypatch: Any) -> None:
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(TEXT + LONG)))
    made = machine.invoke("grow", [], np.zeros(3, np.float32), 1)
    made = machine.invoke("grow", made, TWO, 10_000)
    read: list[int] = []
    lent = Converter.lent_fields

    def counted(*args: Any) -> Any:
        read.append(1)
        return lent(*args)

    monkeypatch.setattr(Converter, "lent_fields", counted)
    with pytest.raises(relayvm.RelayError, match=r"`Tensor\[\(3\), float32\]` was given"):
        machine.invoke("length2", made)
    assert 0 < len(read) < 100


def test_only_the_last_pairs_of_types_are_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(convert, "MOST_PAIRS", 8)
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(TEXT)))
    for size in [*range(30), 2, 29]:
        value = machine.invoke("fun_named", np.zeros(size, np.float32))
        if size == 2:
            assert machine.invoke("to_fun4", value).size == 4
            continue
        with pytest.raises(relayvm.RelayError, match=f"`n` = {size} was given"):
            machine.invoke("to_fun4", value)
    assert len(machine.converter._pairs) == 8


def test_a_value_knows_its_own_type() -> None:
    machine = relayvm.VirtualMachine(relayvm.compile(relayvm.parse(TEXT)))
    assert machine.invoke("bt", TWO).type_name == "Bt[2]"
    assert machine.invoke("bt_any", TWO).type_name == "Bt[?]"
    assert machine.executable.adt("Bt[3]").Bt(np.zeros(3, np.float32)).type_name == "Bt[3]"

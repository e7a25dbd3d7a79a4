"""Python values both ways: arrays, numbers, tuples, data types, references, arrays of values."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from relayvm.base.diagnostics import RelayError
from relayvm.vm.machine import VirtualMachine
from tests.vm.programs import (
    INT,
    LIST,
    LIST_REF,
    entry,
    executable,
    list_machine,
    lists,
    tensor,
)

TREES = """
layout l0 constructor "Leaf" (o) type "Tree" tag 0 of 2
layout l1 constructor "Node" (o, o) type "Tree" tag 1 of 2
layout l2 tuple "pair" (o, w float32)
layout l3 array "array" (o)
layout l4 ref "ref" (o)
layout l5 constructor "Box" (o) type "Box" tag 0 of 1
layout l6 array "array" (w float32)
function f0 "echo" (o) -> (o) registers 0 1 0 {
    return (o0)
}
function f1 "first_leaf" (b) -> (o) registers 0 1 2 {
    switch_tag b0, l0, (Leaf, Node)
  Leaf:
    field_retain o0, b0, l0, 0
    return (o0)
  Node:
    field_borrow b1, b0, l1, 0
    tail_call f2, (b0)
}
function f2 "go_left" (b) -> (o) registers 0 1 2 {
    field_borrow b1, b0, l1, 0
    call f1, (b1), (o0)
    return (o0)
}
function f3 "leaf" (o) -> (o) registers 0 2 0 {
    cell_new o1, l0, (o0)
    return (o1)
}
function f4 "numbers" (w, w, w) -> (w) registers 3 0 0 {
    return (w1)
}
function f5 "boxed" (w) -> (o) registers 1 1 0 {
    box_word o0, w0, d10
    return (o0)
}
function f6 "unboxed" (b) -> (w) registers 1 0 1 {
    unbox_word w0, b0, d10
    return (w0)
}
function f7 "two" (b, b) -> (w) registers 1 0 2 {
    tensor_dim w0, b0, 0
    return (w0)
}
"""
VECTOR = tensor(3)
FLOAT = {"kind": "tensor", "text": "float32", "dtype": "float32"}
BYTE = {"kind": "tensor", "text": "uint8", "dtype": "uint8"}
FLAG = {"kind": "tensor", "text": "bool", "dtype": "bool"}
TREE = {"kind": "data", "text": "Tree", "name": "Tree"}
PAIR = {"kind": "tuple", "text": "(Tree, float32)", "layout": 2, "fields": [TREE, FLOAT]}
FOREST = {"kind": "array", "text": "array(Tree)", "layout": 3, "fields": [TREE]}
FLOATS = {"kind": "array", "text": "array(float32)", "layout": 6, "fields": [FLOAT]}
TREE_REF = {"kind": "ref", "text": "ref(Tree)", "layout": 4, "fields": [TREE]}
BOX = {"kind": "data", "text": "Box", "name": "Box"}
HALF = tensor(dtype="float16")
TYPES = [
    {
        "name": "Tree",
        "constructors": [
            {"name": "Leaf", "layout": 0, "fields": [VECTOR]},
            {"name": "Node", "layout": 1, "fields": [TREE, TREE]},
        ],
    },
    {
        "name": "Box",
        "constructors": [{"name": "Box", "layout": 5, "fields": [FLOAT]}],
    },
]
ENTRIES = [
    entry(0, "echo", [("t", TREE)], TREE),
    entry(0, "echo_pair", [("p", PAIR)], PAIR),
    entry(0, "echo_forest", [("f", FOREST)], FOREST),
    entry(0, "echo_floats", [("f", FLOATS)], FLOATS),
    entry(0, "echo_ref", [("r", TREE_REF)], TREE_REF),
    entry(0, "echo_vector", [("v", VECTOR)], VECTOR),
    entry(0, "echo_any", [("v", tensor(None, None))], tensor(None, None)),
    entry(0, "echo_box", [("b", BOX)], BOX),
    entry(1, "first_leaf", [("t", TREE)], VECTOR),
    entry(3, "leaf", [("v", VECTOR)], TREE),
    entry(4, "numbers", [("f", FLOAT), ("b", BYTE), ("p", FLAG)], BYTE),
    entry(5, "boxed", [("x", FLOAT)], FLOAT),
    entry(6, "unboxed", [("x", FLOAT)], FLOAT),
    entry(7, "two", [("a", tensor("n", 2)), ("b", tensor("n"))], INT),
]
V = np.arange(3, dtype=np.float32)


@pytest.fixture(scope="module")
def vm() -> VirtualMachine:
    return VirtualMachine(executable(TREES, ENTRIES, TYPES))


@pytest.fixture(scope="module")
def tree(vm):
    return vm.executable.adt("Tree")


def test_an_adt_namespace_builds_values(tree):
    value = tree.Node(tree.Leaf(V), tree.Leaf(V + 1))
    assert (value.constructor, value.type_name, value.tag) == ("Node", "Tree", 1)
    assert np.array_equal(value.fields[1].fields[0], V + 1)


def test_values_have_short_reprs(tree):
    value = tree.Leaf(V)
    for _ in range(5):
        value = tree.Node(value, value)
    text = repr(value)
    assert text.startswith("Node(Node(Node(Node(...), ")
    assert repr(tree.Leaf(V)) == "Leaf(Tensor[(3), float32])"
    assert repr(tree) == "<data type Tree: Leaf, Node>"


def test_equality_compares_constructors_and_arrays(tree):
    assert tree.Node(tree.Leaf(V), tree.Leaf(V)) == tree.Node(tree.Leaf(V), tree.Leaf(V))
    assert tree.Leaf(V) != tree.Leaf(V + 1)
    assert tree.Leaf(V) != tree.Node(tree.Leaf(V), tree.Leaf(V))
    assert tree.Leaf(V) != 3


def test_a_leaf_of_nan_differs_from_another(tree):
    nan = np.full(3, np.nan, np.float32)
    assert tree.Leaf(nan) != tree.Leaf(nan)


def test_data_values_are_not_hashable(tree):
    with pytest.raises(TypeError):
        hash(tree.Leaf(V))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((), "`Leaf` of `Tree` takes 1 field, 0 given"),
        ((3,), r"field 0 of `Leaf` is `Tensor\[\(3\), float32\]`, but the number 3"),
        ((np.zeros(4, np.float32),), r"but `Tensor\[\(4\), float32\]` was given"),
        ((np.zeros(3),), r"but `Tensor\[\(3\), float64\]` was given"),
    ],
)
def test_constructors_check_their_fields(tree, fields, message):
    with pytest.raises(RelayError, match=message):
        tree.Leaf(*fields)


def test_an_unknown_constructor_or_type_is_named(vm, tree):
    with pytest.raises(AttributeError, match="`Tree` has no constructor `Branch`"):
        tree.Branch(V)
    with pytest.raises(RelayError, match="no data type `Bush`; there are `Tree`, `Box`") as caught:
        vm.executable.adt("Bush")
    assert caught.value.code == "unknown-type"


def test_values_hold_copies_of_their_arrays(vm, tree):
    x = V.copy()
    value = tree.Leaf(x)
    x[0] = 99
    assert value.fields[0][0] == 0
    assert vm.invoke("first_leaf", value)[0] == 0


def test_results_that_hold_arguments_are_independent_of_them(vm):
    x = V.copy()
    value = vm.invoke("leaf", x)
    x[0] = 99
    assert value.fields[0][0] == 0


def test_a_value_is_passed_without_conversion(vm, tree):
    value = tree.Leaf(V)
    assert vm.invoke("echo", value)._item == value._item


def test_objects_with_constructor_and_fields_are_converted(vm, tree):
    leaf = SimpleNamespace(constructor="Leaf", fields=(V,))
    node = SimpleNamespace(constructor=SimpleNamespace(name="Node"), fields=(leaf, tree.Leaf(V)))
    assert vm.invoke("echo", node) == tree.Node(tree.Leaf(V), tree.Leaf(V))


def test_values_of_another_executable_are_converted(vm, tree):
    other = executable(TREES, ENTRIES, TYPES).adt("Tree")
    value = vm.invoke("echo", other.Node(other.Leaf(V), other.Leaf(V)))
    assert value == tree.Node(tree.Leaf(V), tree.Leaf(V))


@pytest.mark.parametrize(
    "value", [3, None, "x", V, {"a": 1}, SimpleNamespace(constructor="Leaf", fields=())]
)
def test_what_is_no_tree_is_refused(vm, value):
    with pytest.raises(RelayError, match="`t` of `echo` is `Tree`, but"):
        vm.invoke("echo", value)


def test_a_wrong_field_deep_inside_is_refused(vm):
    bad = SimpleNamespace(constructor="Leaf", fields=(np.zeros(4, np.float32),))
    good = SimpleNamespace(constructor="Leaf", fields=(V,))
    with pytest.raises(RelayError, match="field 0 of `Leaf`"):
        vm.invoke("echo", SimpleNamespace(constructor="Node", fields=(good, bad)))


def test_tuples_and_lists_are_tuples(vm, tree):
    value, number = vm.invoke("echo_pair", [tree.Leaf(V), 2.5])
    assert value == tree.Leaf(V)
    assert number == np.float32(2.5)
    assert number.shape == ()
    with pytest.raises(RelayError, match="`p` of `echo_pair`"):
        vm.invoke("echo_pair", (tree.Leaf(V),))
    with pytest.raises(RelayError, match="field 1 of `p`"):
        vm.invoke("echo_pair", (tree.Leaf(V), "x"))


def test_arrays_of_values_are_lists(vm, tree):
    assert vm.invoke("echo_forest", [tree.Leaf(V)] * 3) == [tree.Leaf(V)] * 3
    assert vm.invoke("echo_forest", []) == []
    assert vm.invoke("echo_floats", [1, 2.5]) == [1, 2.5]


def test_a_value_for_a_reference_makes_one(vm, tree):
    reference = vm.invoke("echo_ref", tree.Leaf(V))
    assert reference.read() == tree.Leaf(V)
    assert vm.invoke("echo_ref", reference)._item == reference._item


def test_boxed_words_are_rank_0_arrays(vm):
    assert vm.invoke("boxed", 1.5) == 1.5
    assert vm.invoke("unboxed", 1.5) == 1.5
    assert repr(vm.executable.adt("Box").Box(1.5)) == "Box(1.5)"


def test_python_lists_become_list_like_types():
    vm = list_machine()
    assert vm.invoke("sum", [1, 2, 3]) == 6
    with pytest.raises(RelayError, match="item 1 of `l`"):
        vm.invoke("sum", [1, "two"])


def test_functions_of_python_are_refused():
    with pytest.raises(RelayError, match=r"`f` of `apply` is `fn \(int64\) -> int64`"):
        list_machine().invoke("apply", lambda x: x, 1)


# --- arrays ---------------------------------------------------------------------------------------


def test_non_contiguous_and_byte_swapped_arrays_are_copied(vm):
    wide = np.arange(6, dtype=np.float32)
    assert np.array_equal(vm.invoke("echo_vector", wide[::2]), wide[::2])
    assert np.array_equal(vm.invoke("echo_vector", V.astype(">f4")), V)
    matrix = np.arange(6, dtype=np.float32).reshape(2, 3).T
    assert np.array_equal(vm.invoke("echo_any", matrix), matrix)


def test_read_only_arrays_are_taken(vm):
    x = V.copy()
    x.flags.writeable = False
    assert np.array_equal(vm.invoke("echo_vector", x), V)


def test_float64_for_float32_names_the_cast(vm):
    with pytest.raises(RelayError) as caught:
        vm.invoke("echo_vector", v=np.zeros(3))
    assert str(caught.value) == (
        "error[wrong-argument]: `v` of `echo_vector` is `Tensor[(3), float32]`, "
        "but `Tensor[(3), float64]` was given\n"
        "help: cast it with `v.astype(numpy.float32)`"
    )


@pytest.mark.parametrize("shape", [(4,), (), (1, 3), (0,)])
def test_a_wrong_shape_names_both_types(vm, shape):
    with pytest.raises(RelayError, match=r"is `Tensor\[\(3\), float32\]`, but `"):
        vm.invoke("echo_vector", np.zeros(shape, np.float32))


def test_a_shape_is_checked_again_after_a_good_call(vm):
    for _ in range(2):
        vm.invoke("echo_vector", V)
        with pytest.raises(RelayError):
            vm.invoke("echo_vector", np.zeros(4, np.float32))


def test_named_sizes_must_agree(vm):
    assert vm.invoke("two", np.zeros((3, 2), np.float32), np.zeros(3, np.float32)) == 3
    with pytest.raises(
        RelayError, match="size `n` is 3 on axis 0 of `a` of `two` and 4 on axis 0 of `b` of `two`"
    ):
        vm.invoke("two", np.zeros((3, 2), np.float32), np.zeros(4, np.float32))


@pytest.mark.parametrize(
    ("args", "good"),
    [
        ((1, 200, True), True),
        ((1.5, 0, False), True),
        ((float("inf"), 255, np.bool_(True)), True),
        ((np.float32(2), np.uint8(3), np.array(True)), True),
        ((1, 256, True), False),
        ((1, -1, True), False),
        ((1, 1.0, True), False),
        ((1, True, True), False),
        ((1, 1, 1), False),
        ((1e300, 1, True), False),
        (("1", 1, True), False),
        ((np.float64(1), 1, True), False),
        ((1, np.int64(1), True), False),
        ((None, 1, True), False),
    ],
)
def test_python_numbers_are_taken_when_representable(vm, args, good):
    if good:
        assert vm.invoke("numbers", *args) == args[1]
        return
    with pytest.raises(RelayError) as caught:
        vm.invoke("numbers", *args)
    assert caught.value.code == "wrong-argument"


def test_nested_lists_of_numbers_are_tensors(vm):
    assert np.array_equal(vm.invoke("echo_any", [[1, 2.5], [3, 4]]), [[1, 2.5], [3, 4]])
    for bad in ([[1, 2], [3]], [["x"]]):
        with pytest.raises(RelayError):
            vm.invoke("echo_any", bad)


def test_dlpack_tensors_are_taken(vm):
    torch = pytest.importorskip("torch")
    assert np.array_equal(vm.invoke("echo_vector", torch.arange(3, dtype=torch.float32)), V)
    with pytest.raises(RelayError, match="`v` of `echo_vector`"):
        vm.invoke("echo_vector", torch.zeros(3, requires_grad=True))
    with pytest.raises(RelayError, match="float64"):
        vm.invoke("echo_vector", torch.zeros(3, dtype=torch.float64))


def test_nothing_runs_when_an_argument_is_wrong(vm, tree):
    before = vm.stats()["invocations"]
    with pytest.raises(RelayError):
        vm.invoke("echo_pair", (tree.Leaf(V), None))
    assert vm.stats()["invocations"] == before


# --- lifetime -------------------------------------------------------------------------------------


def test_values_outlive_their_machine_and_executable():
    vm = list_machine()
    items = vm.invoke("range", 3)
    del vm
    gc.collect()
    assert repr(items) == "Cons(0, Cons(1, Cons(2, Nil)))"


def test_a_value_in_a_cycle_with_its_executable_is_collected():
    class Holder:
        pass

    holder = Holder()
    holder.value = list_machine().invoke("range", 100)
    holder.again = holder
    del holder
    gc.collect()


def test_a_million_elements_are_built_compared_and_dropped():
    exe = lists()
    vm = VirtualMachine(exe)
    one, two = vm.invoke("range", 1_000_00), vm.invoke("range", 1_000_00)
    assert one == two
    del one, two


@pytest.mark.slow
def test_a_million_element_list_crosses_both_ways():
    vm = list_machine()
    items = vm.invoke("reverse", list(range(1_000_000)))
    assert vm.invoke("sum", items) == 499999500000
    head, items = items.fields
    assert head == 999_999
    assert vm.invoke("sum", items) == 499999500000 - 999_999


def test_type_descriptions_of_lists_and_references_are_the_users():
    vm = list_machine()
    reference = vm.invoke("ref_of", [])
    assert repr(reference) == f"<{LIST_REF['text']}>"
    with pytest.raises(RelayError, match="`l` of `sum` is `List"):
        vm.invoke("sum", reference)
    assert LIST["text"] == "List[int64]"


def test_a_constructor_without_fields_stands_for_its_value():
    vm = list_machine()
    names = vm.executable.adt("List[int64]")
    assert vm.invoke("sum", names.Nil) == 0
    assert vm.invoke("sum", names.Cons(3, names.Nil)) == 3
    assert vm.invoke("sum", SimpleNamespace(constructor="Cons", fields=(4, names.Nil))) == 4


def test_a_constructor_with_fields_must_be_called():
    vm = list_machine()
    with pytest.raises(RelayError) as caught:
        vm.invoke("sum", vm.executable.adt("List[int64]").Cons)
    assert str(caught.value).startswith(
        "error[wrong-argument]: `l` of `sum` is `List[int64]`, but the constructor `Cons` of "
        "`List[int64]` was given"
    )
    assert "help: call it with its fields" in str(caught.value)

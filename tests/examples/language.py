"""Examples of the language: data, functions, references, loops."""

from __future__ import annotations

from collections import Counter
from heapq import heapify, heappop, heappush
from itertools import groupby
from typing import Any

import numpy as np

from tests.examples.programs import F32, Example, numbers

WORDS = [ord(c) for c in "abc 12 x1 345 a 9z 7"]


def primes(n: int) -> list[int]:
    return [k for k in range(2, n) if all(k % d for d in range(2, k))]


def runs(xs: list[int]) -> Any:
    return [(k, len(list(group))) for k, group in groupby(xs)], xs


def sorted_set(xs: list[int]) -> Any:
    def height(part: list[int]) -> int:
        if not part:
            return 0
        rest = part[1:]
        low, high = [x for x in rest if x < part[0]], [x for x in rest if x > part[0]]
        return 1 + max(height(low), height(high))

    return sorted(set(xs)), height(xs)


def polynomial(x: float) -> Any:
    def derivative(t: Any) -> Any:
        match t:
            case "x":
                return 1.0
            case ("+", a, b):
                return ("+", derivative(a), derivative(b))
            case ("*", a, b):
                return ("+", ("*", derivative(a), b), ("*", a, derivative(b)))
        return 0.0

    def nodes(t: Any) -> int:
        return 1 + nodes(t[1]) + nodes(t[2]) if isinstance(t, tuple) else 1

    cubic = ("+", ("*", 3.0, ("*", "x", ("*", "x", "x"))), ("+", "x", 7.0))
    # 3 * (x*x + x * (x + x)) + 1 is what is left.
    return 3 * x**3 + x + 7, 9 * x * x + 1, nodes(derivative(cubic)), 13


def huffman_bits(counts: list[int]) -> int:
    heap = list(counts)
    heapify(heap)
    total = 0
    while len(heap) > 1:
        both = heappop(heap) + heappop(heap)
        total += both
        heappush(heap, both)
    return total


def layers(x: np.ndarray, w1: np.ndarray, w2: np.ndarray) -> np.ndarray:
    y = np.tanh(x @ w1.T)
    return (y + y @ w2.T) @ w1.T


def shapes(r: float, w: float, h: float) -> Any:
    return 8 * (r * r * F32(np.pi) + w * h), 8


def calculated(codes: list[int]) -> list[int]:
    functions = [lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, max]
    stack: list[int] = []
    for code in codes:
        if code < 100:
            stack.append(code)
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(functions[code - 100](a, b))
    return stack[::-1]


def survivor(n: int, k: int) -> int:
    place = 0
    for size in range(2, n + 1):
        place = (place + k) % size
    return place


def shuffled(seed: np.uint32, items: list[int]) -> list[int]:
    state, result = int(seed), list(items)
    for i in range(len(items) - 1, 0, -1):
        state ^= state << 13 & 0xFFFFFFFF
        state ^= state >> 17
        state ^= state << 5 & 0xFFFFFFFF
        j = state % (i + 1)
        result[i], result[j] = result[j], result[i]
    return result


def components(n: int, pairs: list[tuple[int, int]]) -> list[int]:
    label = list(range(n))
    for a, b in pairs:
        low, high = sorted((label[a], label[b]))
        label = [low if x == high else x for x in label]
    return label


def female(n: int) -> int:
    return 1 if n == 0 else n - male(female(n - 1))


def male(n: int) -> int:
    return 0 if n == 0 else n - female(male(n - 1))


def word_counts(codes: list[int]) -> tuple[int, int]:
    pieces = "".join(map(chr, codes)).split()
    digits = sum(piece.isdigit() for piece in pieces)
    return len(pieces) - digits, digits


def forest_sum(depth: int, label: int = 1) -> int:
    if depth == 0:
        return label
    return label + sum(forest_sum(depth - 1, label * 10 + k) for k in (1, 2, 3))


TOKENS = {"+": -1, "*": -2, "(": -3, ")": -4}


def tokens(text: str) -> list[int]:
    return [TOKENS[t] if t in TOKENS else int(t) for t in text.split()]


def walked(xs: list[int], moves: list[int], t: np.ndarray) -> Any:
    def walk(items: list[Any], change: Any) -> list[Any]:
        items, at = list(items), 0
        for move in moves:
            if move == 0:
                items[at] = change(items[at])
            at = min(max(at + move, 0), len(items) - 1)
        return items

    return walk(xs, lambda x: x * 2), walk([t, t + 1], lambda x: -x)


def ring_products(x: float, y: float) -> Any:
    m = np.array([[x, y], [y, x]], F32)
    square, slope = m @ m, m @ np.eye(2, dtype=F32) + np.eye(2, dtype=F32) @ m
    pairs = [[(square[i, j], slope[i, j]) for j in range(2)] for i in range(2)]
    return square.tolist(), pairs


def folds(x: np.ndarray, n: int) -> Any:
    total = n * (n + 1) // 2
    height = int(np.ceil(np.log2(n)))
    return total, n, height, list(range(n, 0, -1)), x * total


def edit_distance(a: list[int], b: list[int]) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        above, row = row, [i + 1]
        for j, y in enumerate(b):
            row.append(min(above[j] + (x != y), above[j + 1] + 1, row[j] + 1))
    return row[-1]


def lstm(xs: list[np.ndarray], w: np.ndarray, b: np.ndarray) -> Any:
    h = c = np.zeros((1, 8), F32)
    states = []
    for x in xs:
        i, f, g, o = np.split(np.concatenate([x, h], 1) @ w.T + b, 4, 1)
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        states.append(h)
    return states, c


def collatz(n: int) -> tuple[int, int]:
    steps, most = 0, n
    while n > 1:
        n = 3 * n + 1 if n % 2 else n // 2
        steps, most = steps + 1, max(most, n)
    return steps, most


def optional(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    one = np.maximum(x @ w.T + b, 0)
    two = np.maximum(one @ w.T, 0) + one
    return np.maximum(two @ w.T + b, 0) + two @ w.T


def chained(x: int, by: list[int]) -> Any:
    for d in by:
        if d == 0:
            return ("None",), -1
        x = int(x / d)
    return ("Some", x), x


RING = [(0, 1), (4, 5), (1, 4), (7, 8), (2, 2)]
DATA = numbers(5, 12, 4)
TARGET = DATA @ np.array([[1], [-2], [3], [0.5]], F32)
SMALL = numbers(1, 8, 8, scale=0.4)

EXAMPLES = (
    Example("lists_and_trees/primes", (60,), primes),
    Example("lists_and_trees/run_lengths", ([3, 3, 3, 1, 1, 9, 3],), runs),
    Example("lists_and_trees/search_tree", ([5, 2, 8, 1, 9, 2, 7, 3],), sorted_set),
    Example("lists_and_trees/expression", (2.0,), polynomial),
    Example("lists_and_trees/huffman", ([5, 9, 12, 13, 16, 45],), (224, [4, 4, 3, 3, 3, 1])),
    Example(
        "lists_and_trees/huffman",
        ([7, 7, 7, 7],),
        lambda counts: (huffman_bits(counts), [2, 2, 2, 2]),
    ),
    Example("closures/streams", (7,), lambda n: [(k + 1) ** 2 - k for k in range(n)]),
    Example("closures/pipeline", (numbers(0, 4, 8), SMALL, numbers(2, 8, 8)), layers),
    Example("closures/objects", (1.5, 2.0, 3.0), shapes),
    Example("closures/lazy_values", (3,), (3 * 3 + 2 * (9 + 25), 2)),
    Example("closures/dispatch_table", ([7, 3, 100, 4, 102, 50, 103, 2, 1, 101],), calculated),
    Example("references/counters", (4,), (4, 8, 10, 4, 20)),
    Example("references/memo_fibonacci", (80,), 23416728348467685),
    Example("references/ring", (41, 3), survivor),
    Example("references/random_numbers", (np.uint32(12345), list(range(10))), shuffled),
    Example("references/union_find", (9, RING), components),
    Example("tensor_arrays/prefix_sums", (numbers(0, 6, 4),), lambda x: list(np.cumsum(x, 0))),
    Example(
        "tensor_arrays/insertion_sort",
        (list(numbers(4, 9)),),
        lambda xs: sorted(float(x) for x in xs),
    ),
    Example(
        "tensor_arrays/histogram",
        ([0.1, 0.95, 0.5, 0.11, -3.0, 7.0, 0.49], 4),
        [3, 1, 1, 2],
    ),
    Example("tensor_arrays/edit_distance", (list(b"kitten"), list(b"sitting")), edit_distance),
    Example(
        "tensor_arrays/lstm_states",
        ([numbers(k, 1, 8) for k in range(5)], numbers(9, 32, 16, scale=0.3), numbers(8, 32)),
        lstm,
    ),
    Example("while_loop/sum_of_squares", (20,), lambda n: sum(k * k for k in range(n))),
    Example("while_loop/collatz", (np.int64(27),), lambda n: collatz(int(n))),
    Example(
        "while_loop/growing_rows",
        (numbers(3, 1, 3), 4),
        lambda row, n: np.concatenate([row, *(row * k for k in range(n))]),
    ),
    Example(
        "while_loop/gradient_descent",
        (DATA, TARGET),
        lambda x, y: np.linalg.lstsq(x.astype(float), y.astype(float), rcond=None)[0],
        rtol=1e-3,
    ),
    Example("while_loop/nested_loops", (60,), lambda n: len(primes(n))),
    Example(
        "mutual_recursion/even_odd", ([0, 7, 10],), [(True, False), (False, True), (True, False)]
    ),
    Example(
        "mutual_recursion/hofstadter",
        (25,),
        lambda n: ([female(k) for k in range(n)], [male(k) for k in range(n)]),
    ),
    Example("mutual_recursion/state_machine", (WORDS,), word_counts),
    Example("mutual_recursion/forest", (4,), forest_sum),
    Example("mutual_recursion/parser", (tokens("2 + 3 * ( 4 + 5 * 2 ) + 1"),), 45),
    Example(
        "polymorphic_data/association",
        (numbers(0, 2),),
        lambda x: (("Some", x * 2), ("None",), 2),
    ),
    Example(
        "polymorphic_data/heap",
        ([5, 2, 8, 1, 9, 3], [0.5, -2.0, 7.25]),
        lambda xs, ys: (sorted(xs), sorted(ys, reverse=True)),
    ),
    Example("polymorphic_data/folds", (numbers(0, 3), 9), folds),
    Example(
        "polymorphic_data/zipper",
        ([1, 2, 3, 4], [1, 0, 1, 0, 1, 1, 0, -1, 0], numbers(0, 2)),
        walked,
    ),
    Example("polymorphic_data/matrix_of_anything", (2.0, 3.0), ring_products),
    Example("option_and_either/safe_division", (1000, [3, 7, 2]), chained),
    Example("option_and_either/safe_division", (1000, [3, 0, 2]), chained),
    Example("option_and_either/parse_number", (list(b"-4711"),), ("Right", -4711)),
    Example("option_and_either/parse_number", (list(b"47x1"),), ("Left", 2)),
    Example("option_and_either/validation", (-1, 0.0, numbers(0, 4)), ("Bad", [1, 2, 3])),
    Example(
        "option_and_either/validation",
        (30, 70.5, np.ones(4, F32)),
        ("Good", ((30, 70.5), np.ones(4, F32))),
    ),
    Example("option_and_either/first_success", (4.0,), ("Some", 2.0)),
    Example("option_and_either/first_success", (1000.0,), ("Some", float(np.sqrt(1000)))),
    Example("option_and_either/first_success", (-1.0,), ("None",)),
    Example(
        "option_and_either/optional_layers", (numbers(0, 2, 8), SMALL, numbers(3, 8)), optional
    ),
)

FREQUENCIES = Counter(example.name for example in EXAMPLES)

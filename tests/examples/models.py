"""Examples that compute with tensors: sizes that are not known, models, search, numeric methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.examples.programs import F32, Example, numbers


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def log_softmax(x: np.ndarray) -> np.ndarray:
    return np.log(softmax(x.astype(float)))


def distances(a: np.ndarray, b: np.ndarray) -> Any:
    table = np.sqrt(((a[:, None] - b[None]) ** 2).sum(2))
    return table, table.argmin(1)


def attention(x: np.ndarray, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray) -> np.ndarray:
    return softmax((x @ wq.T) @ (x @ wk.T).T / np.sqrt(8)) @ (x @ wv.T)


def narrowed(x: np.ndarray) -> float:
    while len(x) > 1:
        x = (x[1:] + x[:-1]) / 2
    return float(x[0])


# -- Sequences to sequences ------------------------------------------------------------------------


def gru(x: np.ndarray, h: np.ndarray, w: np.ndarray, u: np.ndarray) -> np.ndarray:
    a, b = np.split(x @ w.T, 3, 1), np.split(h @ u.T, 3, 1)
    reset, update = (1 / (1 + np.exp(-(a[k] + b[k]))) for k in (0, 1))
    return (1 - update) * np.tanh(a[2] + reset * b[2]) + update * h


def translated(sentence: list[int], table: np.ndarray, *weights: np.ndarray) -> list[int]:
    w, u, v, x, out = weights
    h, states = np.zeros((1, 8), F32), []
    for word in sentence:
        h = gru(table[word][None], h, w, u)
        states.append(h)
    seen = np.concatenate(states)
    words: list[int] = []
    last = 1
    while len(words) < 12:
        h = gru(table[last][None], h, v, x)
        context = softmax(h @ seen.T) @ seen
        last = int((np.concatenate([h, context], 1) @ out.T).argmax())
        if last == 0:
            break
        words.append(last)
    return words


def additive(states: np.ndarray, steps: int, *weights: np.ndarray) -> list[np.ndarray]:
    wa, ua, va, wr = weights
    state, found = np.zeros((1, 8), F32), []
    for _ in range(steps):
        found.append(softmax((np.tanh(states @ ua.T + state @ wa.T) @ va.T).T))
        state = np.tanh(np.concatenate([state, found[-1] @ states], 1) @ wr.T)
    return found


def bidirectional(
    sentence: list[np.ndarray], steps: int, w: np.ndarray, b: np.ndarray, out: np.ndarray
) -> Any:
    def states(xs: list[np.ndarray], weight: np.ndarray) -> list[np.ndarray]:
        h, found = np.zeros((1, 8), F32), []
        for x in xs:
            h = np.tanh(np.concatenate([x, h], 1) @ weight.T)
            found.append(h)
        return found

    there, back = states(sentence, w), states(sentence[::-1], b)[::-1]
    seen = np.concatenate([np.concatenate(pair, 1) for pair in zip(there, back)])
    h, made = seen[:1], []
    for _ in range(steps):
        h = np.tanh(h + softmax(h @ seen.T) @ seen)
        made.append(softmax(h @ out.T))
    return made


def pointed(words: np.ndarray, wk: np.ndarray, w: np.ndarray, h: np.ndarray) -> list[int]:
    keys, taken, order = words @ wk.T, np.zeros(len(words), bool), []
    for _ in range(len(words)):
        at = int(np.where(taken, -np.inf, (h @ keys.T)[0]).argmax())
        taken[at] = True
        order.append(at)
        h = np.tanh(np.concatenate([words[at][None], h], 1) @ w.T)
    return order


def cached(
    word: int, steps: int, table: np.ndarray, wq: np.ndarray, wk: np.ndarray, wv: np.ndarray
) -> list[int]:
    keys, values, made = np.zeros((0, 8), F32), np.zeros((0, 8), F32), []
    for _ in range(steps):
        x = table[word][None]
        keys, values = np.concatenate([keys, x @ wk.T]), np.concatenate([values, x @ wv.T])
        y = x + softmax((x @ wq.T) @ keys.T / np.sqrt(8)) @ values
        word = int((y @ table.T).argmax())
        made.append(word)
    return made


# -- Beam search -----------------------------------------------------------------------------------


def beam(logits: np.ndarray, width: int, steps: int) -> list[tuple[list[int], float]]:
    table = log_softmax(logits)
    hypotheses: list[tuple[list[int], float]] = [([0], 0.0)]
    for _ in range(steps):
        every = [(w + [k], s + table[w[-1], k]) for w, s in hypotheses for k in range(len(table))]
        hypotheses = sorted(every, key=lambda h: -h[1])[:width]
    return hypotheses


def normalised(logits: np.ndarray, width: int, steps: int) -> Any:
    table = log_softmax(logits)
    hypotheses: list[tuple[list[int], float, int, bool]] = [([1], 0.0, 0, True)]
    for _ in range(steps):
        every = [h for h in hypotheses if not h[3]]
        for words, score, n, is_open in hypotheses:
            for k in range(6) if is_open else ():
                row = (words + [k] * (k != 0), score + table[words[-1], k], n + 1, k != 0)
                every.append(row)
        hypotheses = sorted(every, key=lambda h: -h[1] / h[2])[:width]
        if not any(h[3] for h in hypotheses):
            break
    words, score, n, is_open = hypotheses[0]
    return words, score / n, not is_open


def network_beam(width: int, steps: int, table: np.ndarray, w: np.ndarray) -> Any:
    hypotheses: list[Any] = [([0], 0.0, np.zeros((1, 8), F32))]
    for _ in range(steps):
        every = []
        for words, score, h in hypotheses:
            following = np.tanh(np.concatenate([table[words[-1]][None], h], 1) @ w.T)
            logs = log_softmax(following @ table.T)[0]
            every += [(words + [k], score + logs[k], following) for k in range(8)]
        hypotheses = sorted(every, key=lambda h: -h[1])[:width]
    return [(words, score) for words, score, _ in hypotheses]


def viterbi(seen: list[int], start: np.ndarray, moves: np.ndarray, emits: np.ndarray) -> Any:
    """Return the best of all sequences."""
    best: tuple[float, list[int]] = (-np.inf, [])
    for code in np.ndindex(*[5] * len(seen)):
        score = start[code[0]] + emits[seen[0], code[0]]
        for before, state, item in zip(code, code[1:], seen[1:]):
            score += moves[before, state] + emits[item, state]
        best = max(best, (float(score), [int(c) for c in code]))
    return best[1], best[0]


# -- Numeric methods -------------------------------------------------------------------------------


def pendulum(y: np.ndarray, h: float, steps: int) -> np.ndarray:
    def f(v: np.ndarray) -> np.ndarray:
        return np.array([v[1], -np.sin(v[0])])

    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + f(y + h * k3))
    return y


def escape_times(cx: np.ndarray, cy: np.ndarray, limit: int) -> np.ndarray:
    steps = np.zeros(cx.shape, np.int32)
    for place in np.ndindex(*cx.shape):
        c, z = complex(cx[place], cy[place]), 0j
        while steps[place] < limit and z.real * z.real + z.imag * z.imag <= 4:
            z = z * z + c
            steps[place] += 1
    return steps


ROOT = numbers(2, 6, 6).astype(float)
SYSTEM = ROOT @ ROOT.T + 3 * np.eye(6)
GRID = np.meshgrid(np.linspace(-2, 0.5, 9), np.linspace(-1.2, 1.2, 7))
W8 = [numbers(k, 8, 8, scale=0.6) for k in range(4)]
GRUS = [numbers(k, 24, 8, scale=0.7) for k in range(4)]

EXAMPLES = (
    Example(
        "dynamic_shapes/growing",
        (numbers(1, 1, 3), 4),
        lambda row, n: row[0] * sum(0.5**k for k in (0, *range(1, n + 1))),
    ),
    Example("dynamic_shapes/distances", (numbers(1, 5, 4), numbers(2, 3, 4)), distances),
    Example("dynamic_shapes/distances", (numbers(3, 1, 4), numbers(4, 6, 4)), distances),
    Example(
        "dynamic_shapes/filtered", (numbers(3, 20), 0.3), lambda x, b: (x[x > b], x[x > b].sum())
    ),
    Example("dynamic_shapes/attention", (numbers(0, 7, 8), *W8[:3]), attention),
    Example("dynamic_shapes/attention", (numbers(0, 3, 8), *W8[:3]), attention),
    Example("dynamic_shapes/windows", (numbers(3, 9),), narrowed),
    Example(
        "seq2seq/dot_attention",
        ([3, 9, 4, 12, 7], numbers(3, 16, 8), *GRUS, numbers(8, 16, 16)),
        translated,
    ),
    Example(
        "seq2seq/additive_attention",
        (numbers(1, 6, 8), 3, W8[0], W8[1], numbers(2, 1, 8), numbers(4, 8, 16, scale=0.5)),
        additive,
        rtol=1e-4,
    ),
    Example(
        "seq2seq/bidirectional",
        (
            [numbers(k, 1, 8) for k in range(5)],
            3,
            numbers(6, 8, 16, scale=0.5),
            numbers(7, 8, 16, scale=0.5),
            numbers(8, 16, 16),
        ),
        bidirectional,
        rtol=1e-4,
    ),
    Example(
        "seq2seq/copying",
        (numbers(0, 6, 8), W8[1], numbers(5, 8, 16, scale=0.5), numbers(6, 1, 8)),
        pointed,
    ),
    Example("seq2seq/transformer_cache", (2, 8, numbers(2, 16, 8), *W8[:3]), cached),
    Example("beam_search/lists_of_hypotheses", (numbers(0, 8, 8), 3, 5), beam),
    Example(
        "beam_search/tensors_with_back_pointers",
        (numbers(0, 8, 8), 5),
        lambda logits, n: (beam(logits, 4, n)[0][0][1:], beam(logits, 4, n)[0][1]),
    ),
    Example("beam_search/normalised_by_length", (numbers(4, 6, 6), 3, 8), normalised),
    Example(
        "beam_search/with_a_network",
        (3, 4, numbers(0, 8, 8), numbers(1, 8, 16, scale=0.6)),
        network_beam,
    ),
    Example(
        "beam_search/viterbi",
        ([0, 2, 3, 1], numbers(0, 5), numbers(1, 5, 5), numbers(2, 4, 5)),
        viterbi,
    ),
    Example(
        "numeric/newton",
        (np.float64(7),),
        lambda a: (a ** (1 / 3), 0.7390851332151607, True),
        rtol=1e-12,
    ),
    Example("numeric/runge_kutta", (np.array([1.0, 0.0]), np.float64(0.05), 40), pendulum),
    Example(
        "numeric/conjugate_gradients",
        (SYSTEM, np.arange(6.0)),
        np.linalg.solve,
        rtol=1e-9,
    ),
    Example("numeric/merge_sort", (list(numbers(1, 17)),), lambda xs: sorted(float(x) for x in xs)),
    Example("numeric/mandelbrot", (*GRID, 30), escape_times),
)

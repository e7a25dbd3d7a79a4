"""Parse trees in Penn Treebank brackets: reading them, and word vectors for their tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Union

import numpy as np

from relayvm.base.diagnostics import error
from relayvm.base.source import Source, Span

_TOKEN = re.compile(r"[()]|[^\s()]+")


@dataclass(frozen=True, slots=True)
class Node:
    """An inner node of a binary tree."""

    left: Tree
    right: Tree


Tree = Union[str, Node]


def read_trees(path: str | Path) -> list[Tree]:
    """Return the trees of a file, one a line; raises RelayError `bad-tree` with the place."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as reason:
        raise error("unreadable-file", f"`{path}` cannot be read: {reason}") from None
    trees = parse_trees(Source(str(path), text))
    if not trees:
        raise error("bad-tree", f"`{path}` holds no tree")
    return trees


def parse_trees(source: Source) -> list[Tree]:
    """Return the trees of a text in which every node is `(LABEL token)` or `(LABEL left right)`.

    Lines without text are passed over. A tree may be of any depth.
    """
    trees: list[Tree] = []
    stack: list[list[Tree | _Token]] = []
    opened: list[Span] = []
    label_expected = False
    for match in _TOKEN.finditer(source.text):
        token, span = match.group(), Span(source, match.start(), match.end())
        if token == "(":
            if label_expected:
                raise error("bad-tree", "a label is expected behind `(`", span)
            stack.append([])
            opened.append(span)
            label_expected = True
        elif token == ")":
            if not stack or label_expected:
                raise error("bad-tree", "this `)` closes no node", span)
            tree = _close(stack.pop(), opened.pop().to(span))
            (stack[-1] if stack else trees).append(tree)
        elif label_expected:
            label_expected = False
        elif not stack:
            raise error("bad-tree", f"`{token}` stands outside of a tree", span)
        else:
            stack[-1].append(_Token(token))
    if stack:
        raise error("bad-tree", "this node is not closed", opened[-1])
    return trees


@dataclass(frozen=True, slots=True)
class _Token:
    """A token inside a node; closed, it is a leaf."""

    text: str


def _close(parts: list[Tree | _Token], span: Span) -> Tree:
    match parts:
        case [_Token(text)]:
            return text
        case [str() | Node() as left, str() | Node() as right]:
            return Node(left, right)
    raise error(
        "bad-tree",
        f"a node has one token or two nodes, this one has {_count(parts)}",
        span,
        help="make the trees binary before",
    )


def _count(parts: list[Tree | _Token]) -> str:
    tokens = sum(isinstance(part, _Token) for part in parts)
    return f"{tokens} tokens and {len(parts) - tokens} nodes"


def post_order(tree: Tree) -> Iterable[Tree]:
    """Yield all nodes, leaves before the nodes above them, left before right."""
    pending: list[tuple[Tree, bool]] = [(tree, False)]
    while pending:
        current, expanded = pending.pop()
        if isinstance(current, str) or expanded:
            yield current
        else:
            pending += [(current, True), (current.right, False), (current.left, False)]


def count_tokens(trees: Iterable[Tree]) -> int:
    """Return the number of leaves."""
    return sum(isinstance(node, str) for tree in trees for node in post_order(tree))


def word_vectors(trees: Iterable[Tree], size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return one seeded float32 vector [1, size] for each distinct token, in order of the
    alphabet.
    """
    tokens = sorted({n for tree in trees for n in post_order(tree) if isinstance(n, str)})
    rng = np.random.default_rng(seed)
    return {t: rng.standard_normal((1, size), dtype=np.float32) * np.float32(0.5) for t in tokens}

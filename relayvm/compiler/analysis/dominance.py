"""Post-dominators of a graph in order of evaluation, with what lies on the edges to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

P = TypeVar("P", bound=int)


class PostDominators(Generic[P]):
    """For each node the nearest node that every way onward passes, and the greatest edge to it.

    `links[i]` are the users of node i, all after it, each with the class of its edge; None where
    the value leaves the graph. `parent[i]` is None where nothing dominates. Near-linear: ways
    upward have jumps, so a meeting point is found in logarithmic time.
    """

    def __init__(self, links: Sequence[Sequence[tuple[int, P]] | None], least: P) -> None:
        count = len(links)
        self.parent: list[int | None] = [None] * count
        self.pattern: list[P] = [least] * count
        self._least = least
        self._depth = [1] * count
        self._jump: list[int | None] = [None] * count
        self._jump_pattern: list[P] = [least] * count
        for node in range(count - 1, -1, -1):
            users = links[node]
            if users:
                self._place(node, users)

    def _place(self, node: int, users: Sequence[tuple[int, P]]) -> None:
        meeting: int | None = users[0][0]
        pattern = users[0][1]
        for user, edge in users[1:]:
            pattern = max(pattern, edge)
            meeting, way = self._meet(meeting, user)
            pattern = max(pattern, way)
            if meeting is None:
                break
        self.parent[node], self.pattern[node] = meeting, pattern
        if meeting is None:
            return
        self._depth[node] = self._depth[meeting] + 1
        first = self._jump[meeting]
        second = None if first is None else self._jump[first]
        if first is not None and self._length(meeting, first) == self._length(first, second):
            self._jump[node] = second
            ways = (pattern, self._jump_pattern[meeting], self._jump_pattern[first])
            self._jump_pattern[node] = max(ways)
        else:
            self._jump[node], self._jump_pattern[node] = meeting, pattern

    def _length(self, low: int, high: int | None) -> int:
        return self._depth[low] - (0 if high is None else self._depth[high])

    def _meet(self, a: int | None, b: int | None) -> tuple[int | None, P]:
        """Return where the ways of two nodes meet, and the greatest edge on both up to there."""
        way = self._least
        while a is not None and b is not None and self._depth[a] != self._depth[b]:
            if self._depth[a] > self._depth[b]:
                a, passed = self._climb(a, self._depth[b])
            else:
                b, passed = self._climb(b, self._depth[a])
            way = max(way, passed)
        while a is not None and b is not None and a != b:
            if self._jump[a] != self._jump[b]:
                way = max(way, self._jump_pattern[a], self._jump_pattern[b])
                a, b = self._jump[a], self._jump[b]
            else:
                way = max(way, self.pattern[a], self.pattern[b])
                a, b = self.parent[a], self.parent[b]
        return (a, way) if a is not None and b is not None else (None, way)

    def _climb(self, node: int, depth: int) -> tuple[int | None, P]:
        """Go one step up, or as far as a jump leads that ends at `depth` or below."""
        far = self._jump[node]
        if far is not None and self._depth[far] >= depth:
            return far, self._jump_pattern[node]
        return self.parent[node], self.pattern[node]

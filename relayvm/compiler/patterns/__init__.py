"""Dataflow patterns: shapes of subgraphs that are found, rewritten or cut out of a program."""

from relayvm.compiler.patterns.groups import Group, find_groups
from relayvm.compiler.patterns.matcher import Matcher, match
from relayvm.compiler.patterns.nodes import DFPattern
from relayvm.compiler.patterns.rewriting import Rule, partition, rewrite

__all__ = [
    "DFPattern",
    "Group",
    "Matcher",
    "Rule",
    "find_groups",
    "match",
    "partition",
    "rewrite",
]

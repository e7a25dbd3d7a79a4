"""Operators as objects: what is known of each, and operators that a program registers itself.

A registered operator has a type rule and attributes; it has no meaning that an executor could run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relayvm.base.diagnostics import error
from relayvm.base.dtypes import DTYPES
from relayvm.base.shapes import ShapeError
from relayvm.compiler.kinds import RELATIONS
from relayvm.compiler.patterns.matcher import FUSION_NUMBERS
from relayvm.ir.expr import AttrValue, Op
from relayvm.ir.types import Type
from relayvm.ops import OPS
from relayvm.ops.operator import Fusion, Operator
from relayvm.ops.schema import ConstrainedOperand, Constraint


class OpPattern:
    """How an operator may be fused, by TVM's numbers."""

    ELEMWISE = 0
    BROADCAST = 1
    INJECTIVE = 2
    COMM_REDUCE = 3
    OUT_ELEMWISE_FUSABLE = 4
    TUPLE = 7
    OPAQUE = 8


ANY_VALUE = Constraint("a tensor", DTYPES)

Relation = Callable[[Sequence[Type], Mapping[str, AttrValue]], "Type | None"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RegisteredOperator(Operator):
    """An operator of a program: `set_num_inputs`, `add_argument` and `add_type_rel` complete it."""

    def complete_attrs(self, attrs: Mapping[str, AttrValue]) -> dict[str, Any]:
        """Return the attributes as they are: there is no schema."""
        return dict(attrs)

    def __reduce__(self) -> tuple[Callable[[str], Operator], tuple[str]]:
        """Return how a pickle finds the operator again: where it is registered as well."""
        return get, (self.name,)


_registered: dict[str, RegisteredOperator] = {}
# What programs say of operators, by operator and key, each with its level.
_attributes: dict[tuple[str, str], tuple[int, Any]] = {}
_support_levels: dict[str, int] = {}


def get(op_name: str) -> Operator:
    """Return an operator by name: a row of the table, or one that `register` made.

    Raises RelayError `unknown-operator`.
    """
    found = OPS.get(op_name) or _registered.get(op_name)
    if found is None:
        help = f"make it known before: `relay.op.register({op_name!r})`"
        raise error("unknown-operator", f"there is no operator `{op_name}`", help=help)
    return found


def all_operators() -> Mapping[str, Operator]:
    """Return the rows of the table and what programs have registered, by name."""
    return {**OPS, **_registered}


def register(op_name: str, describe: str = "") -> None:
    """Make a new operator without operands and type.

    Raises RelayError `bad-operator` for a name of the table.
    """
    if op_name in OPS:
        raise error("bad-operator", f"there is an operator `{op_name}` already")
    if op_name not in _registered:
        reason = "it was registered without one"
        made = RegisteredOperator(
            op_name, (), fusion=Fusion.OPAQUE, doc=describe, no_gradient=reason
        )
        _registered[op_name] = made
        _set(made, "rule", _no_rule(op_name))


def _no_rule(name: str) -> Callable[..., Type]:
    def rule(*types: Type, **attrs: AttrValue) -> Type:
        raise ShapeError(f"operator `{name}` has no type relation", "bad-operator")

    return rule


def _set(op: Op, name: str, value: Any) -> None:
    """Set a field of a registered operator, which is made step by step."""
    if not isinstance(op, RegisteredOperator):
        raise error(
            "bad-operator", f"operator `{op.name}` is a row of the table and stays as it is"
        )
    object.__setattr__(op, name, value)


# -- Methods of `Op` -------------------------------------------------------------------------------


def set_num_inputs(self: Op, n: int) -> None:
    """Set how many operands a registered operator takes."""
    names = [o.name for o in self.operands[:n]]
    names += [f"x{i}" for i in range(len(names), n)]
    _set(self, "operands", tuple(ConstrainedOperand(name, ANY_VALUE) for name in names))


def add_argument(self: Op, name: str, type: str, description: str) -> None:
    """Name the next operand of a registered operator."""
    operands = list(self.operands)
    named = [o for o in operands if not o.name.startswith("x")]
    row = ConstrainedOperand(name, ANY_VALUE)
    if len(named) < len(operands):
        operands[len(named)] = row
    else:
        operands.append(row)
    _set(self, "operands", tuple(operands))


def add_type_rel(self: Op, rel_name: str, type_rel_func: Relation | None = None) -> None:
    """Set the type of calls: a function of operand types and attributes, or the name of a relation:
    `Identity`, `Broadcast`, `BroadcastComp`... A function that returns None cannot tell.
    """
    if type_rel_func is None:
        if rel_name not in RELATIONS:
            known = ", ".join(f"`{name}`" for name in RELATIONS)
            message = f"there is no relation `{rel_name}`; known are {known}"
            raise error("bad-operator", message)
        _set(self, "rule", OPS[RELATIONS[rel_name]].rule)
        return
    relation = type_rel_func

    def rule(*types: Type, **attrs: AttrValue) -> Type:
        result = relation(list(types), attrs)
        if result is None:
            raise ShapeError(f"`{rel_name}` gives `{self.name}` no type", "bad-operator")
        return result

    _set(self, "rule", rule)


def set_attrs_type_key(self: Op, key: str) -> None:
    """Take the name of a class of attributes: any attributes are accepted."""


def set_support_level(self: Op, level: int) -> None:
    """Remember how widely an operator is supported."""
    _support_levels[self.name] = level


def set_attr(self: Op, attr_name: str, value: Any, plevel: int = 10) -> None:
    """Remember what an operator is said to be; a lower level than there is already is dropped."""
    old = _attributes.get((self.name, attr_name))
    if old is None or plevel >= old[0]:
        _attributes[self.name, attr_name] = (plevel, value)


def get_attr(self: Op, attr_name: str) -> Any:
    """Return what was set, else what the row says, else None."""
    if (self.name, attr_name) in _attributes:
        return _attributes[self.name, attr_name][1]
    if isinstance(self, Operator) and attr_name == "TOpPattern":
        return FUSION_NUMBERS[self.fusion]
    if isinstance(self, Operator) and attr_name == "TOpIsStateful":
        return self.has_effect
    return None


def functions_under(attr_name: str) -> dict[str, Callable[..., Any]]:
    """Return the functions that programs set under a name, by operator."""
    found = {op: value for (op, key), (_, value) in _attributes.items() if key == attr_name}
    return {op: value for op, value in found.items() if callable(value)}


def has_attr(self: Op, attr_name: str) -> bool:
    """Tell whether something is known under a name."""
    return get_attr(self, attr_name) is not None


def reset_attr(self: Op, attr_name: str) -> None:
    """Forget what was set."""
    _attributes.pop((self.name, attr_name), None)


def was_set(self: Op, attr_name: str) -> bool:
    """Tell whether a program set this."""
    return (self.name, attr_name) in _attributes


def set_by_programs(attr_name: str) -> dict[Operator, Any]:
    """Return the operators for which programs set this, each with the value."""
    found = ((name, value) for (name, key), (_, value) in _attributes.items() if key == attr_name)
    return {get(name): value for name, value in found if value is not None}


OP_MEMBERS: dict[str, Any] = {
    "set_num_inputs": set_num_inputs,
    "add_argument": add_argument,
    "add_type_rel": add_type_rel,
    "set_attrs_type_key": set_attrs_type_key,
    "set_support_level": set_support_level,
    "set_attr": set_attr,
    "get_attr": get_attr,
    "has_attr": has_attr,
    "reset_attr": reset_attr,
    "num_inputs": property(lambda self: len(self.operands)),
    "arguments": property(lambda self: self.operands),
    "description": property(lambda self: getattr(self, "doc", "")),
    "support_level": property(lambda self: _support_levels.get(self.name, 10)),
}

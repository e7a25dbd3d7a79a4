"""Random programs that respect ownership: a second reading of the verifier's rules.

A generator keeps its own account of registers: which words are set, what each owned register holds,
what each borrowed register depends on. The verifier must accept all it makes, and the machine must
run them without losing or touching a dead object.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from relayvm.vm.isa import BY_OPCODE
from relayvm.vm.program import FunctionCode, Instr, Program
from tests.vm.samples import FUNCTIONS, program

WORDS, OWNED, BORROWED = 8, 8, 4
# Kinds of objects, by the layouts of samples.py: T tensor, P pair, N nil, K cons, L either,
# C closure, W and R references, A and B arrays, M memory of a dead cell, ? any.
LAYOUT = {"P": 0, "N": 1, "K": 2, "C": 3, "W": 4, "R": 5, "A": 6, "B": 7}
WORD_ROWS = [
    row for row in BY_OPCODE if row.group in ("words", "casts") or row.name in ("move", "select")
]


@dataclass
class State:
    """Set words, kinds in full owned registers, kinds and roots of valid borrowed registers."""

    words: set[int]
    owned: dict[int, str] = field(default_factory=dict)
    borrowed: dict[int, tuple[str, str]] = field(default_factory=dict)

    def copy(self) -> State:
        return State(set(self.words), dict(self.owned), dict(self.borrowed))

    def end(self, register: str) -> None:
        """Drop what depends on an owned register that is consumed."""
        self.borrowed = {b: v for b, v in self.borrowed.items() if v[1] != register}


@dataclass
class Made:
    """A function that later ones may call: kinds of its parameters and result."""

    number: int
    params: tuple[str, ...]
    result: str


class FunctionMaker:
    """Writes one function of random instructions."""

    def __init__(self, choice: random.Random, number: int, callees: list[Made], last: bool):
        self.choice = choice
        self.callees = callees
        kinds = [] if last else choice.choices(["o", "b"], k=choice.randrange(3))
        self.params = ("w", "w", *(k + choice.choice("TPKLCWRAB") for k in kinds))
        self.number = number
        self.state = State({0, 1})
        self.code: list[Instr] = []
        self.labels = 0
        for p in self.params[2:]:
            if p[0] == "o":
                self.state.owned[len(self.state.owned)] = p[1]
            else:
                self.state.borrowed[len(self.state.borrowed)] = (p[1], "kept")

    # --- operands ------------------------------------------------------------------------------

    def emit(self, name: str, *operands) -> None:
        self.code.append(Instr(name, operands))

    def word(self) -> str:
        return f"w{self.choice.choice(sorted(self.state.words))}"

    def new_word(self) -> str:
        w = self.choice.randrange(WORDS)
        self.state.words.add(w)
        return f"w{w}"

    def room(self) -> bool:
        return len(self.state.owned) < OWNED - 1

    def fill(self, kind: str) -> str:
        o = self.choice.choice([i for i in range(OWNED) if i not in self.state.owned])
        self.state.owned[o] = kind
        return f"o{o}"

    def take(self, kinds: str) -> str | None:
        having = [i for i, k in sorted(self.state.owned.items()) if k in kinds]
        if not having:
            return None
        o = self.choice.choice(having)
        del self.state.owned[o]
        self.state.end(f"o{o}")
        return f"o{o}"

    def lent(self, kinds: str) -> tuple[str, str, str] | None:
        """Return a register that holds one of `kinds`, its kind, and what keeps it."""
        having = [(f"o{i}", k, f"o{i}") for i, k in sorted(self.state.owned.items()) if k in kinds]
        having += [
            (f"b{i}", k, root) for i, (k, root) in sorted(self.state.borrowed.items()) if k in kinds
        ]
        return self.choice.choice(having) if having else None

    def borrow(self, kind: str, root: str) -> str:
        b = self.choice.randrange(BORROWED)
        self.state.borrowed[b] = (kind, root)
        return f"b{b}"

    # --- instructions ----------------------------------------------------------------------------

    def make(self, kind: str) -> None:
        """Fill an owned register with a new object of a kind."""
        layout = LAYOUT.get(kind, -1)
        if kind == "T":
            values = tuple(self.word() for _ in range(self.choice.randrange(4)))
            self.emit("tensor_from_words", self.fill("T"), 10, values)
        elif kind in "LN":
            self.cell("N", ())
        elif kind == "C":
            word = self.word()
            self.cell("C", (word,))
        elif kind in "PK":
            part = self.take("T" if kind == "P" else "NKL")
            if part is None:
                self.make("T" if kind == "P" else "N")
                part = self.take("T" if kind == "P" else "N")
            word = self.word()
            self.cell(kind, (word, part))
        elif kind == "W":
            word = self.word()
            self.emit("ref_new_word", self.fill(kind), layout, word)
        elif kind == "R":
            self.make("N")
            part = self.take("NKL")
            self.emit("ref_new", self.fill(kind), layout, part)
        else:
            word = self.word()
            self.emit("array_new", self.fill(kind), layout, word)

    def cell(self, kind: str, fields: tuple[str, ...]) -> None:
        """Make a cell anew, in memory that is left, or in what looks like it."""
        memory = self.take(self.choice.choice(("", "M", "M", "TPNKLCWRABM")))
        if memory:
            self.emit("cell_reuse", self.fill(kind), memory, LAYOUT[kind], fields)
        else:
            self.emit("cell_new", self.fill(kind), LAYOUT[kind], fields)

    def step(self) -> None:
        actions = [
            self.do_word,
            self.do_make,
            self.do_release,
            self.do_share,
            self.do_field,
            self.do_unpack,
            self.do_reference,
            self.do_array,
            self.do_tensor,
            self.do_call,
            self.do_closure,
            self.do_branch,
            self.do_switch,
        ]
        self.choice.choice(actions)()

    def do_word(self) -> None:
        row = self.choice.choice(WORD_ROWS)
        reads = [self.word() for _ in row.operands[1:]]
        self.emit(row.name, self.new_word(), *reads)
        self.emit("word", self.new_word(), self.choice.randrange(3))

    def do_make(self) -> None:
        if len(self.state.owned) < OWNED - 3:
            self.make(self.choice.choice("TPNKCWRAB"))

    def do_release(self) -> None:
        register = self.take("TPNKLCWRABM")
        if register:
            self.emit("release", register)

    def do_share(self) -> None:
        found = self.lent("TPNKLCWRABM")
        if not found:
            return
        register, kind, root = found
        way = self.choice.randrange(3)
        if way == 0 and self.room():
            self.emit("retain", self.fill(kind), register)
        elif way == 1:
            self.emit("borrow", self.borrow(kind, root), register)
        elif self.state.owned:
            source = self.take("TPNKLCWRABM") if self.choice.random() < 0.5 else None
            if source:
                kind = "T"
                self.emit("release", source)
                self.emit("constant", self.borrow("T", "kept"), 0)

    def do_field(self) -> None:
        found = self.lent("PK")
        if not found:
            return
        register, kind, root = found
        layout, part = LAYOUT[kind], "T" if kind == "P" else "L"
        way = self.choice.randrange(3)
        if way == 0:
            self.emit("field_word", self.new_word(), register, layout, 0)
        elif way == 1:
            self.emit("field_borrow", self.borrow(part, root), register, layout, 1)
        elif self.room():
            self.emit("field_retain", self.fill(part), register, layout, 1)

    def do_unpack(self) -> None:
        having = [k for k in self.state.owned.values() if k in "PKC"]
        if not having:
            return
        kind = self.choice.choice(having)
        register = self.take(kind)
        parts = [self.new_word()]
        if kind != "C":
            parts.append(self.fill("T" if kind == "P" else "L"))
        if self.choice.random() < 0.5:
            self.emit("cell_unpack", register, LAYOUT[kind], tuple(parts))
            return
        memory = self.fill("M")
        self.emit("cell_unpack_keep", memory, register, LAYOUT[kind], tuple(parts))

    def do_reference(self) -> None:
        found = self.lent("WR")
        if not found:
            return
        register, kind, _ = found
        layout = LAYOUT[kind]
        if kind == "W":
            self.emit("ref_write_word", register, layout, self.word())
            self.emit("ref_read_word", self.new_word(), register, layout)
            return
        way = self.choice.randrange(3)
        if way == 0 and self.room():
            self.emit("ref_read", self.fill("L"), register, layout)
        elif way == 1 and self.room():
            self.emit("ref_take", self.fill("L"), register, layout)
            self.emit("ref_write", register, layout, self.take("L"))
        else:
            value = self.take("NKL")
            if value:
                self.emit("ref_write", register, layout, value)

    def do_array(self) -> None:
        found = self.lent("AB")
        if found and self.choice.random() < 0.3:
            self.emit("array_length", self.new_word(), found[0], 6 if found[1] == "A" else 7)
        if not self.state.owned:
            return
        kind = self.choice.choice("AB")
        value = self.word() if kind == "A" else self.take("NKL")
        source = self.take(kind)
        if value is None or source is None:
            for register in (value, source):
                if register and register[0] == "o":
                    self.emit("release", register)
            return
        suffix = "_word" if kind == "A" else ""
        target = self.fill(kind)
        self.emit(f"array_push{suffix}", target, source, LAYOUT[kind], value)
        zero = self.new_word()
        self.emit("word", zero, 0)
        if kind == "A":
            self.emit("array_get_word", self.new_word(), target, 6, zero)
        elif self.room():
            self.emit("array_get", self.fill("L"), target, 7, zero)

    def do_tensor(self) -> None:
        found = self.lent("T")
        if not found:
            return
        register = found[0]
        self.emit("tensor_rank", self.new_word(), register)
        size = self.new_word()
        self.emit("tensor_dim", size, register, 0)
        zero = f"w{(int(size[1:]) + 1) % WORDS}"
        self.state.words.add(int(zero[1:]))
        self.emit("word", zero, 0)
        self.emit("check_dim", register, 0, size)
        if self.room():
            way = self.choice.randrange(3)
            if way == 0:
                self.emit("slice_view", self.fill("T"), register, zero, size)
            elif way == 1:
                self.emit("tensor_view", self.fill("T"), register, (size,))
            else:
                source = self.take("T")
                if source and source != register:
                    self.emit("release", source)
                elif source:
                    self.emit("tensor_view_take", self.fill("T"), source, (size,))

    def arguments(self, callee: Made) -> tuple[str, ...] | None:
        """Return registers for parameters: owned first, so that no root of a lent one is taken."""
        chosen: dict[int, str] = {}
        for p in callee.params:
            if p[0] == "o":
                self.make_room_for(p[1])
        for i, p in enumerate(callee.params):
            if p[0] == "o":
                register = self.take(p[1])
                if register is None:
                    return self.give_up(callee, chosen)
                chosen[i] = register
        for i, p in enumerate(callee.params):
            if p[0] == "w":
                chosen[i] = self.word()
            elif p[0] == "b":
                found = self.lent(p[1])
                if found is None:
                    return self.give_up(callee, chosen)
                chosen[i] = found[0]
        return tuple(chosen[i] for i in range(len(callee.params)))

    def give_up(self, callee: Made, chosen: dict[int, str]) -> None:
        """Drop what was taken for a call that cannot be made."""
        for i, register in chosen.items():
            if callee.params[i][0] == "o":
                self.emit("release", register)

    def make_room_for(self, kind: str) -> None:
        if kind not in self.state.owned.values() and len(self.state.owned) < OWNED - 3:
            self.make(kind)

    def do_call(self) -> None:
        if not self.callees or not self.room():
            return
        callee = self.choice.choice(self.callees)
        args = self.arguments(callee)
        if args is None:
            return
        result = self.new_word() if callee.result == "w" else self.fill(callee.result)
        self.emit("call", callee.number, args, (result,))

    def do_closure(self) -> None:
        closure = self.take("C")
        value = self.take("NKL") if closure else None
        if closure and value:
            word = self.word()
            self.emit("call_closure", closure, 0, (word, value), (self.new_word(),))
        elif closure:
            self.emit("release", closure)

    def label(self) -> str:
        self.labels += 1
        return f"L{self.labels}"

    def do_branch(self) -> None:
        label = self.label()
        self.emit("branch_false", self.word(), label)
        before = self.state.copy()
        for _ in range(self.choice.randrange(4)):
            self.choice.choice((self.do_word, self.do_share, self.do_unpack, self.do_release))()
        self.settle(before)
        self.emit("label", label)

    def settle(self, before: State) -> None:
        """Give every owned register the fullness it had; keep what both paths know."""
        after = self.state
        for o in sorted(set(after.owned) - set(before.owned)):
            self.emit("release", f"o{o}")
            del after.owned[o]
            after.end(f"o{o}")
        for o in sorted(set(before.owned) - set(after.owned)):
            self.emit("cell_new", f"o{o}", LAYOUT["N"], ())
            after.owned[o] = "N"
        kept = {b: v for b, v in after.borrowed.items() if before.borrowed.get(b) == v}
        for o, kind in after.owned.items():
            if before.owned[o] != kind:
                after.owned[o] = "?"
                kept = {b: v for b, v in kept.items() if v[1] != f"o{o}"}
        after.borrowed = kept
        after.words &= before.words

    def do_switch(self) -> None:
        found = self.lent("NKL")
        if found:
            nil, cons, join = self.label(), self.label(), self.label()
            word = self.choice.randrange(WORDS)
            self.emit("switch_tag", found[0], LAYOUT["N"], (nil, cons))
            self.emit("label", nil)
            self.emit("word", f"w{word}", 0)
            self.emit("goto", join)
            self.emit("label", cons)
            self.emit("field_word", f"w{word}", found[0], LAYOUT["K"], 0)
            self.emit("label", join)
            self.state.words.add(word)

    def finish(self) -> tuple[FunctionCode, Made]:
        result = "w"
        if self.choice.random() < 0.5:
            kinds = [k for k in self.state.owned.values() if k != "?"]
            result = self.choice.choice(kinds) if kinds else "w"
        value = self.word() if result == "w" else self.take(result)
        for o in sorted(self.state.owned):
            self.emit("release", f"o{o}")
        self.emit("return", (value,))
        function = FunctionCode(
            f"random_{self.number}",
            "".join(p[0] for p in self.params),
            "w" if result == "w" else "o",
            WORDS,
            OWNED,
            BORROWED,
            tuple(self.code),
        )
        return function, Made(self.number, self.params, result)


def random_program(seed: int, functions: int = 4, steps: int = 40) -> Program:
    """Return a program of random functions, the last of which takes words alone."""
    choice = random.Random(seed)
    made: list[FunctionCode] = []
    callees: list[Made] = []
    for i in range(functions):
        maker = FunctionMaker(choice, len(FUNCTIONS) + i, callees, i == functions - 1)
        for _ in range(choice.randrange(steps // 2, steps)):
            maker.step()
        function, row = maker.finish()
        made.append(function)
        callees.append(row)
    return program(*made)

"""Calls of kernels whose sizes are known: operands are compared with constants, and the phases are
called from where the call stands.

Whatever is not as usual (an operand of another size, memory that is out, a profile, a kernel of the
host) goes the long way, which does it all from the beginning. So nothing is given up before.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from relayvm.base.abi import WORK_PER_STEP, Access, KernelSignature, Operand
from relayvm.vm.jit.boxes import expect_size, expect_tensor, load_element
from relayvm.vm.jit.objects import release, release_by_body
from relayvm.vm.jit.splice import inlined_name
from relayvm.vm.jit.writer import Writer

# A kernel of more work may be shared out to threads: kernel_phases.h.
_MOST_WORK = 25_000
_MOST_BYTES = 1 << 30
_MOST_INLINED = 4096


def is_fixed(signature: KernelSignature, given: int) -> bool:
    """Tell whether calls of a kernel can be written out, with these inputs given away."""
    if signature.dim_vars or signature.checks or signature.scratch_bytes != 0:
        return False
    if signature.private_bytes != 0 or not isinstance(signature.work, int):
        return False
    if not 0 <= signature.work < _MOST_WORK:
        return False
    if not all(isinstance(extent, int) for extent in signature.phases):
        return False
    if not all(_is_plain(operand) for operand in signature.operands):
        return False
    if not any(prod(_dims(output)) for output in signature.outputs):
        return False  # it is not run at all
    # Of other sizes, a tensor would be a view of what is reused, or changed while it may be needed.
    inputs, outputs = signature.inputs, signature.outputs
    pairs = _reused(signature, given).items()
    return all(_dims(inputs[i]) == _dims(outputs[o]) for o, i in pairs)


def is_small(signature: KernelSignature) -> bool:
    """Tell whether a kernel that can be written out is inlined where its function is known."""
    assert isinstance(signature.work, int)
    return len(signature.phases) == 1 and signature.work <= _MOST_INLINED


def _is_plain(operand: Operand) -> bool:
    if operand.access is Access.STRIDED or not all(isinstance(d, int) for d in operand.dims):
        return False
    return prod(_dims(operand)) * operand.dtype.itemsize_bytes < _MOST_BYTES


def _dims(operand: Operand) -> tuple[int, ...]:
    return tuple(d for d in operand.dims if isinstance(d, int))


def _reused(signature: KernelSignature, given: int) -> dict[int, int]:
    """Return for outputs, by number, the input whose memory they take where it is held once."""
    found: dict[int, int] = {}
    count = len(signature.inputs)
    for o, output in enumerate(signature.outputs):
        for operand, i in signature.in_place:
            if operand != count + o or i >= 32 or not given >> i & 1 or i in found.values():
                continue
            if prod(_dims(signature.inputs[i])) == prod(_dims(output)):
                found[o] = i
                break
    return found


def shape_name(dims: tuple[int, ...]) -> str:
    """Return the symbol of a constant that holds dims."""
    return "_".join(["dims", *map(str, dims)])


def call(
    w: Writer, k: int, given: int, inputs: Sequence[str], outputs: Sequence[str], slow: str
) -> None:
    """Write a call; what it cannot do goes to the block `slow`."""
    signature = w.program.kernels[k].signature
    _Call(w, k, signature, given, [w.load(r) for r in inputs], slow).write(inputs, outputs)


class _Call:
    """One call on its way: words of the inputs, variables that hold the tensors of outputs."""

    def __init__(
        self,
        w: Writer,
        number: int,
        signature: KernelSignature,
        given: int,
        words: list[str],
        slow: str,
    ) -> None:
        self.w = w
        self.number = number
        self.signature = signature
        self.given = [i for i in range(len(words)) if i < 32 and given >> i & 1]
        self.words = words
        self.slow = slow
        self.reused = _reused(signature, given)
        self.made: dict[int, str] = {}
        self.scalars: list[str] = []

    def write(self, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        w = self.w
        offsets = w.host.offsets
        kernels = w.of_machine("kernels", "ptr")
        kernel = w.address(kernels, offsets["kernel_bytes"] * self.number)
        profile = w.of_machine("profile", "ptr", "")
        host = w.value(f"load i8, ptr {w.address(kernel, offsets['kernel_calls_host'])}")
        w.expect(w.value(f"icmp eq ptr {profile}, null"), self.slow)
        w.expect(w.value(f"icmp eq i8 {host}, 0"), self.slow)
        for operand, word in zip(self.signature.inputs, self.words):
            if operand.access is Access.DENSE:
                self._check(operand, word)
        for o, operand in enumerate(self.signature.outputs):
            if operand.access is Access.DENSE:
                self._make(o, operand)
        w.empty({inputs[i] for i in self.given})
        assert isinstance(self.signature.work, int)
        steps = self.signature.work // WORK_PER_STEP
        self._count(steps)
        self._run(kernel)
        self._finish(outputs)
        if steps:
            self._look_at_fuel()

    def _check(self, operand: Operand, word: str) -> None:
        """Go on where a value is a tensor of this dtype and these sizes."""
        w, place = self.w, self.w.pointer(word)
        expect_tensor(w, self._expect, place, operand.dtype, operand.rank)
        for axis, dim in enumerate(_dims(operand)):
            expect_size(w, self._expect, place, axis, dim)

    def _expect(self, condition: str) -> None:
        self.w.expect(condition, self.slow)

    # --- outputs ----------------------------------------------------------------------------------

    def _make(self, o: int, operand: Operand) -> None:
        """Have a tensor for an output: an input's, if nobody else can see it, or a new one."""
        w = self.w
        self.made[o] = w.local(f"made{o}")
        if o not in self.reused:
            self._new(o, operand)
            return
        fresh, ready = w.name("fresh"), w.name("ready")
        word = self.words[self.reused[o]]
        self._expect_unique(word, fresh)
        w.do(f"store i64 {word}, ptr {self.made[o]}")
        w.do(f"br label %{ready}")
        w.block(fresh)
        self._new(o, operand)
        w.do(f"br label %{ready}")
        w.block(ready)

    def _expect_unique(self, word: str, otherwise: str) -> None:
        w, offsets = self.w, self.w.host.offsets
        place = w.pointer(word)
        count = w.value(f"load atomic i32, ptr {place} monotonic, align 8")
        w.expect(w.value(f"icmp eq i32 {count}, 1"), otherwise)
        storage = w.value(f"load ptr, ptr {w.address(place, offsets['tensor_storage'])}")
        w.expect(w.value(f"icmp ne ptr {storage}, null"), otherwise)
        held = w.value(f"load atomic i32, ptr {storage} monotonic, align 8")
        w.expect(w.value(f"icmp eq i32 {held}, 1"), otherwise)
        foreign = w.value(f"load i64, ptr {w.address(storage, offsets['storage_foreign'])}")
        w.expect(w.value(f"icmp eq i64 {foreign}, 0"), otherwise)

    def _new(self, o: int, operand: Operand) -> None:
        w, dims = self.w, _dims(operand)
        w.shapes.add(dims)
        arguments = (
            f"i32 {operand.dtype.code}",
            f"i32 {len(dims)}",
            f"ptr @{shape_name(dims)}",
            f"i64 {prod(dims)}",
        )
        word = w.call(w.host.calls["tensor"], "i64", arguments)
        short = w.name("short")
        earlier = [e for e in self.made if e != o]
        w.expect(w.value(f"icmp ne i64 {word}, 0"), short)
        with w.aside(short):
            for e in earlier:
                self._drop_made(e)
            w.do(f"br label %{self.slow}")
        w.do(f"store i64 {word}, ptr {self.made[o]}")

    def _drop_made(self, o: int) -> None:
        """Release a new tensor; one that is an input's stays with it."""
        w = self.w
        word = w.value(f"load i64, ptr {self.made[o]}")
        if o not in self.reused:
            release_by_body(w, word)
            return
        drop, kept = w.name("drop"), w.name("kept")
        own = w.value(f"icmp eq i64 {word}, {self.words[self.reused[o]]}")
        w.branch(own, kept, drop)
        w.block(drop)
        release_by_body(w, word)
        w.do(f"br label %{kept}")
        w.block(kept)

    # --- running ----------------------------------------------------------------------------------

    def _count(self, steps: int) -> None:
        w = self.w
        place = w.address("%m", w.host.offsets["kernel_calls"])
        calls = w.value(f"add i64 {w.value(f'load i64, ptr {place}')}, 1")
        w.do(f"store i64 {calls}, ptr {place}")
        if steps:
            state = w.value(f"sub i64 {w.value('load i64, ptr %state')}, {steps << 32}")
            w.do(f"store i64 {state}, ptr %state")

    def _run(self, kernel: str) -> None:
        """Call the phases: those of a small kernel by its function, which is inlined."""
        text = self.w.texts.get(self.number)
        if text is not None and is_small(self.signature):
            self._run_inline()
        else:
            self._run_phases(kernel)

    def _data(self, n: int, scalar: str) -> str:
        """Return the place of an operand; that of a scalar is given, to be filled."""
        w, o = self.w, n - len(self.words)
        if self.signature.operands[n].access is Access.SCALAR:
            w.do(f"store i64 {self.words[n] if o < 0 else 0}, ptr {scalar}")
            return scalar
        word = self.words[n] if o < 0 else w.value(f"load i64, ptr {self.made[o]}")
        at = w.address(w.pointer(word), w.host.offsets["tensor_data"])
        return w.value(f"load ptr, ptr {at}")

    def _run_inline(self) -> None:
        """Scalars stand in variables of their own, which LLVM makes values."""
        w = self.w
        (extent,) = self.signature.phases
        operands = range(len(self.signature.operands))
        self.scalars = [w.local(f"scalar{n}") for n in operands]
        places = [f"ptr {self._data(n, self.scalars[n])}" for n in operands]
        w.called.add(self.number)
        values = f"ptr {w.address('%m', w.host.offsets['kernel_values'])}"
        arguments = ", ".join([*places, "ptr null", "i64 0", f"i64 {extent}", "ptr null", values])
        code = w.value(f"call i32 {inlined_name(self.number)}({arguments})")
        self._expect_done(code)

    def _run_phases(self, kernel: str) -> None:
        """Scalars stand in the first half of the list, addresses in the second."""
        w, offsets = self.w, self.w.host.offsets
        count = len(self.signature.operands)
        self.scalars = [w.list_place(n) for n in range(count)]
        for n in range(count):
            data = self._data(n, self.scalars[n])
            w.do(f"store ptr {data}, ptr {w.list_place(count + n)}")
        phases = w.value(f"load ptr, ptr {w.address(kernel, offsets['kernel_phases'])}")
        dims = w.of_machine("kernel_dims", "ptr")
        for p, extent in enumerate(self.signature.phases):
            assert isinstance(extent, int)
            if extent <= 0:
                continue
            phase = w.value(f"load ptr, ptr {w.address(phases, 8 * p)}")
            args = f"ptr {w.list_place(count)}, ptr {dims}, i64 0, i64 {extent}, ptr null, "
            args += f"ptr {w.address('%m', offsets['kernel_values'])}"
            self._expect_done(w.value(f"call i32 {phase}({args})"))

    def _expect_done(self, code: str) -> None:
        stopped = self.w.name("stopped")
        self.w.expect(self.w.value(f"icmp eq i32 {code}, 0"), stopped)
        self._write_stopped(stopped, code)

    def _write_stopped(self, label: str, code: str) -> None:
        w = self.w
        with w.aside(label):
            trap = w.helper("stopped", "i32", f"i32 {self.number}", f"i32 {code}")
            for i in self.given:
                release_by_body(w, self.words[i])
            for o in self.made:
                self._drop_made(o)
            w.do(f"br label %{w.trap(trap)}")

    def _finish(self, outputs: Sequence[str]) -> None:
        w = self.w
        results: list[str] = []
        for o, operand in enumerate(self.signature.outputs):
            if operand.access is Access.SCALAR:
                scalar = self.scalars[len(self.words) + o]
                results.append(load_element(w, operand.dtype, scalar))
            else:
                results.append(w.value(f"load i64, ptr {self.made[o]}"))
        takers = {i: o for o, i in self.reused.items()}
        for i in self.given:
            if i not in takers:
                release(w, self.words[i])
                continue
            drop, kept = w.name("drop"), w.name("kept")
            own = w.value(f"icmp eq i64 {results[takers[i]]}, {self.words[i]}")
            w.branch(own, kept, drop)
            w.block(drop)
            release(w, self.words[i])
            w.do(f"br label %{kept}")
            w.block(kept)
        for register, word in zip(outputs, results):
            w.store(register, word)
        assert w.full is not None
        w.full = w.full | {outputs[o] for o in self.made}

    def _look_at_fuel(self) -> None:
        w = self.w
        state = w.value("load i64, ptr %state")
        spent, on = w.name("spent"), w.name("on")
        w.branch(w.value(f"icmp sge i64 {state}, 0"), on, spent, likely=True)
        with w.aside(spent):
            new = w.helper("safepoint", "i64", f"i64 {state}")
            w.do(f"store i64 {new}, ptr %state")
            trap = w.trap("-1", w.next_unit)
            w.branch(w.value(f"icmp sge i64 {new}, 0"), on, trap, likely=True)
        w.block(on)

"""Reads the text that `assembly.disassemble` writes: text to program, or diagnostics with carets.

What a program must fulfil beyond its grammar is for the loader to say.
"""

from __future__ import annotations

from math import prod

import numpy as np

from relayvm.base.abi import MAX_BYTES, MAX_RANK, Kernel
from relayvm.base.diagnostics import quantity
from relayvm.base.dtypes import BY_NAME
from relayvm.base.source import Source
from relayvm.vm.assembly.code import CodeReader
from relayvm.vm.assembly.kernel import KernelReader
from relayvm.vm.assembly.tokens import WORD_LIMIT, TextReader, is_encodable
from relayvm.vm.manifest import Manifest, manifest_from_json
from relayvm.vm.program import (
    ClosureSignature,
    FunctionCode,
    LateConstant,
    Layout,
    LayoutKind,
    Program,
    SourceText,
    TensorSpec,
)


def assemble(text: str, name: str = "<assembly>") -> Program:
    """Return the program of an assembly text; raises RelayError `bad-assembly` with the place."""
    return _Assembler(Source(name, text)).program()


class _Assembler(TextReader):
    """Reads the statements of a program."""

    def __init__(self, source: Source) -> None:
        super().__init__(source)
        self.manifest = Manifest()
        self.sources: list[SourceText] = []
        self.signatures: list[ClosureSignature] = []
        self.layouts: list[Layout] = []
        self.tensor_types: list[TensorSpec] = []
        self.constants: list[np.ndarray | LateConstant] = []
        self.kernels: list[Kernel] = []
        self.functions: list[FunctionCode] = []

    def program(self) -> Program:
        statements = {
            "source": self.source_text,
            "signature": self.signature,
            "layout": self.layout,
            "tensor_type": self.tensor_type,
            "constant": self.constant,
            "kernel": self.kernel,
            "function": self.function,
        }
        while self.next_line():
            line = self.lines[self.number]
            if line.startswith("manifest "):
                self.read_manifest(line.removeprefix("manifest "))
                continue
            self.scan()
            if self.tokens[0].kind == "end":
                continue
            statement = self.choose(statements)
            statement()
            self.end()
        return Program(
            tuple(self.functions),
            tuple(self.layouts),
            tuple(self.signatures),
            tuple(self.tensor_types),
            tuple(self.constants),
            tuple(self.kernels),
            self.manifest.entries,
            self.manifest.types,
            tuple(self.sources),
            self.manifest.devices,
            self.manifest.version,
        )

    # --- tables --------------------------------------------------------------------------------

    def read_manifest(self, text: str) -> None:
        begin = self.line_begin()
        try:
            self.manifest = manifest_from_json(text)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as reason:
            self.fail(f"the manifest cannot be read: {reason}", begin, begin + 8)
        if not is_encodable(text):
            self.fail("this text cannot be stored", begin, begin + 8)

    def source_text(self) -> None:
        name = self.string()
        lines = []
        for line in self.block():
            if not line.lstrip().startswith("|"):
                self.refuse("a line of source text begins with `|`")
            lines.append(self.bar_text(line))
        self.sources.append(SourceText(name, "\n".join(lines)))

    def signature(self) -> None:
        self.numbered("s", self.signatures)
        params = self.letters("wo")
        self.expect("->")
        self.signatures.append(ClosureSignature(params, self.letters("wo")))

    def layout(self) -> None:
        self.numbered("l", self.layouts)
        kinds = {kind.name.lower(): kind.value for kind in LayoutKind}
        kind = LayoutKind(kinds[self.name_of(kinds)])
        name = self.string()
        dtypes = self.list_of(self.field)
        fields = "".join("w" if d else "o" for d in dtypes)
        type_name = self.string() if self.accept("type") else ""
        tag = tags = 0
        if self.accept("tag"):
            tag = self.number_below(WORD_LIMIT)
            self.expect("of")
            tags = self.number_below(WORD_LIMIT)
        function = self.index("f", WORD_LIMIT - 1) if self.accept("function") else -1
        signature = self.index("s", WORD_LIMIT - 1) if self.accept("signature") else -1
        cyclic = self.accept("cyclic")
        self.layouts.append(
            Layout(
                kind, name, fields, tuple(dtypes), type_name, tag, tags, cyclic, function, signature
            )
        )

    def field(self) -> str:
        if self.accept("o"):
            return ""
        self.expect("w")
        return self.name_of(BY_NAME)

    def size(self) -> int | None:
        return None if self.accept("?") else self.number_below(1 << 62)

    def tensor_type(self) -> None:
        self.numbered("t", self.tensor_types)
        dtype = self.name_of(BY_NAME)
        dims = self.list_of(self.size)
        self.check_rank(len(dims))
        self.tensor_types.append(TensorSpec(dtype, tuple(dims)))

    def check_rank(self, rank: int) -> None:
        if rank > MAX_RANK:
            self.refuse(f"a tensor has at most {MAX_RANK} axes, not {rank}")

    def constant(self) -> None:
        self.numbered("c", self.constants)
        dtype = BY_NAME[self.name_of(BY_NAME)]
        shape = self.list_of(lambda: self.number_below(1 << 46))
        self.check_rank(len(shape))
        if self.accept("..."):
            self.refuse("the contents of this constant were left out of the text")
        size = dtype.itemsize_bytes * prod(shape)
        if self.accept("late"):
            if size > MAX_BYTES:
                self.refuse(f"a constant of {quantity(size, 'byte')} is too large")
            total = self.take("bytes", "a checksum in hexadecimal")
            if len(total.text) != 17:
                self.refuse("a checksum has 16 digits", total)
            self.constants.append(LateConstant(dtype.numpy, tuple(shape), int(total.text[1:], 16)))
            return
        token = self.take("bytes", "contents in hexadecimal")
        content = bytes.fromhex(token.text[1:])
        if size != len(content):
            self.refuse(f"{quantity(size, 'byte')} expected, not {len(content):,}", token)
        self.constants.append(np.frombuffer(content, dtype.numpy).reshape(shape))

    # --- kernels -------------------------------------------------------------------------------

    def kernel(self) -> None:
        self.numbered("k", self.kernels)
        name = self.string()
        reader = KernelReader(self)
        for line in self.block():
            reader.line(line)
        self.kernels.append(reader.kernel(name))

    # --- functions -----------------------------------------------------------------------------

    def function(self) -> None:
        self.numbered("f", self.functions)
        name = self.string()
        params = self.letters("wob")
        self.expect("->")
        results = self.letters("wo")
        self.expect("registers")
        banks = {bank: self.number_below(WORD_LIMIT) for bank in "wob"}
        reader = CodeReader(self, banks)
        for _ in self.block():
            reader.line()
        reader.finish()
        self.functions.append(
            FunctionCode(
                name,
                params,
                results,
                banks["w"],
                banks["o"],
                banks["b"],
                tuple(reader.code),
                tuple(reader.lines),
                tuple(reader.names),
            )
        )

"""Bytecode assembly: programs to text and back."""

from __future__ import annotations

from relayvm.vm.assembly.assemble import assemble as assemble
from relayvm.vm.assembly.disassemble import disassemble as disassemble
from relayvm.vm.assembly.disassemble import instruction_text as instruction_text

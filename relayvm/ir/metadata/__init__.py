"""The metadata section of a text: constants and other objects that have no literal."""

from relayvm.ir.metadata.section import Metadata, Section, read_metadata
from relayvm.ir.metadata.tensor_file import little_endian, read_tensors, write_tensors

__all__ = [
    "Metadata",
    "Section",
    "little_endian",
    "read_metadata",
    "read_tensors",
    "write_tensors",
]

"""RelayVM: a compiler and bytecode machine for Relay."""

__version__ = "0.1.0"

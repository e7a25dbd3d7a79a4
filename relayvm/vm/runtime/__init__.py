"""The C runtime and how it is built."""

"""The bytecode machine: instructions, executables, values and the interpreter. Shippable alone."""

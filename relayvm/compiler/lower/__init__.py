"""The lower half of the compiler: from normal-form Relay to bytecode."""

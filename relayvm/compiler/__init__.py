"""From Relay modules to executables."""

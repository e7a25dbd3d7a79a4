"""The programs behind the scalar functions, and their evaluation on numpy arrays."""

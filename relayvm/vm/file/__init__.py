"""The executable file: its tables, and programs to bytes and back."""

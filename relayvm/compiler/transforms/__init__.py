"""Module-to-module passes, one a file."""

"""Kernel code generators, one a back end."""

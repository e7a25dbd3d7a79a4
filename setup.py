"""Builds the C runtime with the package; all else stands in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["relayvm/vm/runtime/build.py:ffibuilder"])

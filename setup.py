from setuptools import setup

setup(cffi_modules=["relayvm/vm/runtime/build.py:ffibuilder"])

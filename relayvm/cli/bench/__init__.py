"""Benchmarks that users run from the command line; each compares with named peers in one
process.
"""

"""Whole programs as people wrote them for TVM, run with the one changed import."""

"""The language: types, expressions, modules, their text, and structural operations on them."""

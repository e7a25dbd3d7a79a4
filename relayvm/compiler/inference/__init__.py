"""How types are inferred: holes, the dim lattice, flows between types, constraints of expressions,
the typed rebuild.
"""

"""Index arithmetic: normal forms, proofs about them, and the bounds of accesses."""

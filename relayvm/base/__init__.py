"""What every room shares: spans, diagnostics, dtypes, dims, targets, the ABI, settings."""

# The version of RelayVM, which executables and code for its runtime name.
__version__ = "0.1.0"

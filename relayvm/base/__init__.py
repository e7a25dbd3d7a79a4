"""What every room shares: spans, diagnostics, dtypes, dims, targets, the ABI, settings."""

# The version of RelayVM, which executables and code for its runtime name.
VERSION = "0.1.0"

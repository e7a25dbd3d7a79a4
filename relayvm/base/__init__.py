"""What every room shares: spans, diagnostics, dtypes, dims, targets, the ABI, settings."""

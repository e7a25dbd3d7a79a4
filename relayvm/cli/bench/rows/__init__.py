"""The rows of `bench operators`."""

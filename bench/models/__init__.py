"""Nets built twice from the same seeded weights: as Relay, and with `onnx.helper`."""

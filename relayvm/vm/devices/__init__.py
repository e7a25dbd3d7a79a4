"""Devices on which tensors live and kernels run."""

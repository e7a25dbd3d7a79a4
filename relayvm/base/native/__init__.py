"""Native code of kernels: for which CPU, and by which key this user's own cache holds it."""

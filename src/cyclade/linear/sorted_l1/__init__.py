"""Kernels of the sorted l1 penalty."""

"""Panels and kernels of blocks with several entries."""

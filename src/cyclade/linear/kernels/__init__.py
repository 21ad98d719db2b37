"""Compiled loops: what runs once per column or once per entry of X, and nothing else."""

from cyclade._extras import needs

with needs("cyclade.linear", "linear"):  # before any of its modules asks for numba
    import numba  # noqa: F401

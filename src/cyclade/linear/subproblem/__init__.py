"""Solvers of the problem on a working set."""

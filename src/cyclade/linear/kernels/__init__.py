"""Compiled loops: what runs once per column or once per entry of X, and nothing else."""

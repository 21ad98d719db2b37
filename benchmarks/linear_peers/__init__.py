"""Linear models beside the solvers of others.

`solvers` has an adapter for each, `problems` the data and the mathematics; `worker` runs one solver
on one problem in a process of its own, `report` writes the tables. Only NumPy and SciPy are needed.
"""

"""Fits on the products of all columns, where these are cheap beside cycles over X.

fits     which problems; their moments; all λ in one compiled call, with certificates from X
folds    the paths of a cross-validation from one reading of X
shorter  a tall table as one with a row per column, for any penalty
"""

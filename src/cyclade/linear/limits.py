"""Guards: after so many a fit goes on by other means, or ends. No line of the benchmark needs them.

>>> STEPS > HALVINGS
True
"""

STEPS = 50  # models of a loss, steps of an intercept, powers of a matrix
WINDOWS = 20  # of a loss, on the way to a narrow one; then steps are larger
CYCLES = 100  # on a model that is not exact; then another, or products of columns, are tried
HALVINGS = 8  # of a step that does not lower F, and doublings of one that does
STALLED = 30  # checks in a row without a lower F or certificate: precision is used up
IDLE = 3  # checks in a row between which nothing moved

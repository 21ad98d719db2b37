"""Guards: after so many a fit goes on by other means, or ends. No benchmark comes near them."""

STEPS = 50  # models or windows of a loss, steps of an intercept, powers of a matrix
CYCLES = 100  # on a model that is not exact; then another, or products of columns, are tried
TRIES = 8  # halvings or doublings of a step that F does not like; Newton steps in a row at first
STALLED = 30  # checks in a row without a lower F or certificate: precision is used up
IDLE = 3  # checks in a row between which nothing moved
LENGTHS = (1.0, 0.5, 0.25, 0.0625)  # of a Newton step on products, tried until F falls

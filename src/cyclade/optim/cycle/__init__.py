"""One cycle over the blocks: sweeps, steps, prox, turns, and the lagged point."""

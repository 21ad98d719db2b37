"""What a cycle sees: `samplers` draw the terms of f, `orders` give the blocks their turns."""

from cyclade.sampling.samplers import ALL, Batch, FiniteSum, Full, Minibatch, Page, Stream

__all__ = ["ALL", "Batch", "FiniteSum", "Full", "Minibatch", "Page", "Stream"]

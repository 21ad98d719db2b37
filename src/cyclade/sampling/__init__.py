"""What a cycle sees: `samplers` draw the terms of f, `orders` give the blocks their turns."""

from cyclade.sampling.samplers import ALL, FiniteSum, Full, Minibatch, Page, Stream, StreamBatch

__all__ = ["ALL", "FiniteSum", "Full", "Minibatch", "Page", "Stream", "StreamBatch"]

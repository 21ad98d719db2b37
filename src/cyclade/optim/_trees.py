"""Nested tuples, lists and dicts: the one place that imports torch's private module for them."""

from torch.utils import _pytree as pytree

__all__ = ["pytree"]

"""Small layers of a captured net in few kernels.

`fused` finds them in a stage: Conv2d, ReLU and MaxPool2d(2) in a row, and Linear with or without a
ReLU. The sums are those of torch's kernels in another order.
"""

from cyclade.optim.layers.fusing import fused

__all__ = ["fused"]

"""Deep nets: when does the order of the blocks matter, and what does a cyclic step bring there?

`study` runs settings of the optimizer on two tasks, a ResNet-18 on CIFAR-10 and a small GPT on the
sources of Python itself, each at its best learning rate and over several seeds.
"""

from studies.deep.record import Setting
from studies.deep.runs import study

__all__ = ["Setting", "study"]

"""Cyclade: cyclic block coordinate descent with variance reduction.

Minimises F(x) = f(x) + r(x) over blocks x = (x^1, …, x^m), f smooth and possibly nonconvex, r
separable with a prox. Start with `minimize`.
"""

from cyclade._minimize import minimize
from cyclade.blocks import Layout, Point
from cyclade.certificates import certificate
from cyclade.core import State, cycle, iterate, start
from cyclade.orders import Backward, Forward, Greedy, Random, Reflected, Rotated, Shuffled
from cyclade.regularisers import (
    L0,
    L1,
    MCP,
    SCAD,
    Box,
    ElasticNet,
    Grid,
    GroupL2,
    L1Ball,
    L2Ball,
    LHalf,
    NonNegative,
    NuclearNorm,
    PerBlock,
    PyProximal,
    Regulariser,
    Simplex,
    SquaredL2,
    TotalVariation1D,
    Zero,
)
from cyclade.result import Result
from cyclade.run_parts import Report, Stop
from cyclade.samplers import FiniteSum, Full, Minibatch, Page, Stream
from cyclade.steps import Backtracking, Curvature, Fixed, Matrix

__version__ = "0.1.0"

__all__ = [
    "L0",
    "L1",
    "MCP",
    "SCAD",
    "Backtracking",
    "Backward",
    "Box",
    "Curvature",
    "ElasticNet",
    "FiniteSum",
    "Fixed",
    "Forward",
    "Full",
    "Greedy",
    "Grid",
    "GroupL2",
    "L1Ball",
    "L2Ball",
    "LHalf",
    "Layout",
    "Matrix",
    "Minibatch",
    "NonNegative",
    "NuclearNorm",
    "Page",
    "PerBlock",
    "Point",
    "PyProximal",
    "Random",
    "Reflected",
    "Regulariser",
    "Report",
    "Result",
    "Rotated",
    "Shuffled",
    "Simplex",
    "SquaredL2",
    "State",
    "Stop",
    "Stream",
    "TotalVariation1D",
    "Zero",
    "__version__",
    "certificate",
    "cycle",
    "iterate",
    "minimize",
    "start",
]

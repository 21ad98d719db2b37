"""Cyclade: cyclic block coordinate descent with variance reduction.

Minimises F(x) = f(x) + r(x) over blocks x = (x^1, …, x^m), f smooth and possibly nonconvex, r
separable with a prox. Start with `minimize`.

- The algorithm: `core` (Algorithms 1 and 2), `methods`, `sampling` (terms, orders); `reference` is
  its slow twin.
- What a problem is made of: `blocks`, `oracles`, `regularisers`, `steps`; `problems` has examples.
- What a run is: `run` and its result, `certificates`; `ranks` for several processes.
- Applications: `linear` (with `tables` and `rows`), `decomposition`, `optim` (nets), `experiments`
  and `cli`.
- Under all of it: `files`. Beside it: `theory`, the constants and bounds of the paper.

`docs/design.md` has a picture of the rooms.
"""

from cyclade._minimize import minimize
from cyclade.blocks import Layout, Point
from cyclade.certificates import squared_distance
from cyclade.core import State, cycle, iterate, start
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
from cyclade.run.result import Report, Result
from cyclade.run.stopping import Stop
from cyclade.sampling.orders import Backward, Forward, Greedy, Random, Reflected, Rotated, Shuffled
from cyclade.sampling.samplers import FiniteSum, Full, Minibatch, Page, Stream
from cyclade.steps import Backtracking, Curvature, Fixed, Matrix

__version__ = "0.3.0.dev0"


def __getattr__(name: str) -> object:
    """`Linear`, which brings the losses of linear models, is loaded when it is first used."""
    if name == "Linear":
        from cyclade.problems import Linear

        return Linear
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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
    "cycle",
    "iterate",
    "minimize",
    "squared_distance",
    "start",
]

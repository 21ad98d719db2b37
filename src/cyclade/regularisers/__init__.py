"""Regularisers: functions r of one block with a value, an exact prox and a distance to -∂r."""

from cyclade.regularisers.adapters import PyProximal
from cyclade.regularisers.base import PerBlock, Regulariser, RegulariserLike, Zero, per_block
from cyclade.regularisers.constraints import L1Ball, L2Ball, Simplex
from cyclade.regularisers.elementwise import L1, Box, ElasticNet, NonNegative, SquaredL2
from cyclade.regularisers.grid import Grid
from cyclade.regularisers.groups import GroupL2
from cyclade.regularisers.matrix import NuclearNorm
from cyclade.regularisers.nonconvex import L0, MCP, SCAD, LHalf
from cyclade.regularisers.total_variation import TotalVariation1D

__all__ = [
    "L0",
    "L1",
    "MCP",
    "SCAD",
    "Box",
    "ElasticNet",
    "Grid",
    "GroupL2",
    "L1Ball",
    "L2Ball",
    "LHalf",
    "NonNegative",
    "NuclearNorm",
    "PerBlock",
    "PyProximal",
    "Regulariser",
    "RegulariserLike",
    "Simplex",
    "SquaredL2",
    "TotalVariation1D",
    "Zero",
    "per_block",
]

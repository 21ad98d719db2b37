"""The experiments, each as a plan: what is trained, tuned and timed, and what the paper claims."""

from cyclade.experiments.plans.batch import batch
from cyclade.experiments.plans.fig1 import fig1
from cyclade.experiments.plans.fig_same_lr import fig_same_lr
from cyclade.experiments.plans.fig_time import fig_time
from cyclade.experiments.plans.fig_vr import fig_vr
from cyclade.experiments.plans.order import order
from cyclade.experiments.plans.plan import Check, Claim, Curve, Make, Plan, Settings
from cyclade.experiments.plans.table1 import table1

PAPER: dict[str, Make] = {
    "fig1": fig1,
    "table1": table1,
    "fig-time": fig_time,
    "fig-vr": fig_vr,
    "fig-same-lr": fig_same_lr,
}
STUDIES: dict[str, Make] = {"batch": batch, "order": order}

__all__ = ["PAPER", "STUDIES", "Check", "Claim", "Curve", "Make", "Plan", "Settings"]

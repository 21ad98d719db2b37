"""The experiments, each as a plan: what is trained, tuned and timed, and what the paper claims."""

from cyclade.experiments.plans.paper import fig1, fig_same_lr, fig_time, fig_vr, table1
from cyclade.experiments.plans.plan import Check, Claim, Curve, Make, Plan, Settings
from cyclade.experiments.plans.studies import batch, order

PAPER: dict[str, Make] = {
    "fig1": fig1,
    "table1": table1,
    "fig-time": fig_time,
    "fig-vr": fig_vr,
    "fig-same-lr": fig_same_lr,
}
STUDIES: dict[str, Make] = {"batch": batch, "order": order}

__all__ = ["PAPER", "STUDIES", "Check", "Claim", "Curve", "Make", "Plan", "Settings"]

"""Solvers of linear models to run beside ours: one small adapter each.

An adapter is a module with

* ``MODULE``: what must be importable for it to run, and ``NAME``: what the tables call it;
* ``can(problem, path)``: whether it can solve this kind of problem at all;
* ``prepare(problem)``: anything it wants done to the data first, off the clock;
* ``LADDER``: values of its own tolerance, loose to tight (or a function of the problem);
* ``fit(problem, lam, tol)``: the coefficients at one λ;
* ``path(problem, lams, tol)``: those at all λ, as columns (optional: fits in turn, if absent).

`problems` has the data and the mathematics, `worker` runs one adapter on one problem in a process
of its own, `report` writes the tables. Only NumPy and SciPy are needed here.
"""

ADAPTERS = (
    "ours",
    "scikit_learn",
    "scikit_learn_gram",
    "skglm_",
    "skglm_gram",
    "celer_",
    "adelie_",
    "glmnet_",
    "jaxopt_",
)

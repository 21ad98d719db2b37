"""What the docstrings of the estimators share; `LinearModel` fills it in."""

COMMON = """fit_intercept : bool, default=True
        Whether to fit an unpenalised intercept.
    tol : float, default=1e-6
        Relative tolerance of the certificate: the duality gap over the objective at zero where
        the problem is convex and its loss has a conjugate, else the distance from zero to the
        subdifferential over alpha (then at least 1e-4 for float32 X, which is rounded so).
    max_iter : int, default=20000
        Largest number of passes.
    warm_start : bool, default=False
        Whether `fit` starts from the solution of the last one.
    verbose : bool, default=False
        Whether the solver reports its progress."""

FITTED = """coef_ : array of shape (n_features,), or (n_outputs, n_features)
        Coefficients; classifiers have one row with two classes.
    intercept_ : float or array
        Intercepts.
    certificate_ : Certificate
        How far from optimal the solution is, measured on all columns; of several separate fits,
        the worst.
    objective_ : float
        F at the solution; of several separate fits, the sum.
    n_iter_ : int
        Passes of the solver; of several separate fits, the most.
    n_features_in_, feature_names_in_
        As in scikit-learn."""

CHOICE = """alphas : array, default=None
        Values of alpha to try; None takes `n_alphas` of them, spaced evenly in the logarithm.
    n_alphas : int, default=100
        How many alphas are tried.
    alpha_ratio : float, default=1e-3
        The smallest alpha over the largest, which is the smallest with all coefficients zero.
    cv : int, splitter or iterable of (train, test), default=None
        The folds: 5, that many (stratified for classes), or as given.
    scoring : str or callable, default=None
        A scorer of scikit-learn. None is minus the mean loss on the held-out fold (for the squared
        loss, minus the mean squared error).
    rule : {"min", "1se"}, default="min"
        "min" takes the alpha with the best mean score, "1se" the largest alpha within one standard
        error of it.
    n_jobs : int, default=None
        Folds that run at once, as in joblib."""

CHOSEN = """alpha_ : float
        The alpha that was chosen.
    alpha_min_, alpha_1se_ : float
        What each rule chooses.
    alphas_ : array of shape (n_alphas,)
        The alphas tried, descending.
    score_path_ : array of shape (n_alphas, n_folds)
        Scores on the held-out folds, higher is better.
    mean_score_, std_score_ : arrays of shape (n_alphas,)
        Their mean over folds (weighted by what the folds weigh) and its standard error.
    mse_path_ : array of shape (n_alphas, n_folds)
        Minus `score_path_`, for estimators with the squared loss."""

"""Linear models by the paper's stochastic methods: rows are sampled, blocks of columns cycled."""

"""The proof, on the first batch and before anything moves, that every gradient is the model's."""

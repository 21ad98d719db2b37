"""Cyclic block coordinate descent with variance reduction."""

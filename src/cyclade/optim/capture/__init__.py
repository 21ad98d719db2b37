"""CUDA graphs of whole cycles and of single turns, and the numbers that they read."""

"""Constants of tables in chunks, besides those of the engine: passes over X against other work."""

from __future__ import annotations

from dataclasses import dataclass

from cyclade.linear import tuning


@dataclass(frozen=True)
class Tuning(tuning.Tuning):
    """Constants of `cyclade.tables`, and of `cyclade.linear`."""

    chunk_rows: int = 3 * 2**10  # at a time: their vectors fit where freed memory is kept; 2x: 1.1
    chunk_sample: int = 1_000  # targets of a chunk from which a spread is guessed; safe
    chunk_dual_part: float = 0.9  # of φ': Σφ* is known there and at φ', and bounded in between
    chunk_split: int = 32  # sums that one task of Dask adds; 8: 7 % more time on 20 small chunks
    chunk_group_bytes: int = 2**30  # of X in memory that one task works on; 0: a task for a chunk
    chunk_model_part: tuple[float, float] = 0.1, 0.01  # of the distance aimed at, what models are
    # minimised to: of curved losses, and of the squared one, whose models are exact
    pseudo_inverse: float = 1e-12  # of its largest eigenvalue, what counts as none

    @classmethod
    def of(cls, given: tuning.Tuning) -> Tuning:
        """With the constants of the engine that were given."""
        return given if isinstance(given, cls) else cls(**vars(given))


DEFAULT = Tuning()

"""Which terms of f a cycle (or a block) sees, and whether it refreshes the estimate g.

A sampler draws ``(sample, refresh)``. A sample is what the oracle takes: ``ALL``, an array of
indices into the n terms, or a batch from a stream. ``refresh`` is the coin of Algorithm 2, line 6.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final, Protocol

import numpy as np

from cyclade._checks import LARGEST_INDEX, as_float, function, require, shown, takes, whole_number
from cyclade.files.objects import stored

Sample = Any


class _All:
    """The sample that is every term of the sum."""

    def __repr__(self) -> str:
        return "ALL"

    def __reduce__(self) -> str:
        return "ALL"  # stays a singleton when pickled


ALL: Final = stored(_All(), "ALL")


class Sampler(Protocol):
    """Draws the sample of a cycle (or of a block)."""

    recursive: bool
    """Whether g is ever carried over, so that the method needs a lagged point."""

    def large(self, rng: np.random.Generator) -> Sample:
        """A sample of the large size b: for g_{-1}, line 2 of Algorithm 2."""

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The next sample, and whether it refreshes g."""

    def size(self, sample: Sample) -> float:
        """How many terms `sample` has."""


class Source(Protocol):
    """Where samples of a given size come from: n terms, or a stream."""

    n: float

    def take(self, size: int, rng: np.random.Generator) -> Sample:
        """A sample of `size` terms."""


class FiniteSum:
    """n terms; a batch is drawn uniformly without replacement (Lemma 1)."""

    def __init__(self, n: int) -> None:
        self.n: float = whole_number("n", n, 1, LARGEST_INDEX)

    def take(self, size: int, rng: np.random.Generator) -> Sample:
        """`size` distinct indices; all of them are simply `ALL`."""
        size = batch_size("size", size, self.n)
        if size == self.n:
            return ALL
        return required_generator(rng).choice(int(self.n), size=size, replace=False, shuffle=False)


class Stream:
    """An endless source of samples, n = ∞ in the paper.

    `source` is either a callable ``source(rng, size) -> batch``, with `size` samples along the
    first axis of an array, a list, or some array of a tuple or dict; or an iterable of single
    samples, which `collate` puts together (default: `numpy.stack`, entry by entry for tuples and
    dicts). A callable of the generator replays exactly from a seed; an iterator is as reproducible
    as the iterator itself. A stream that ends raises `StreamEnded`.

    Example
    -------
    >>> import numpy as np
    >>> stream = Stream(lambda rng, size: rng.normal(size=size))
    >>> stream.take(3, np.random.default_rng(0)).data.shape
    (3,)
    """

    n: float = math.inf

    def __init__(
        self,
        source: Callable[[np.random.Generator, int], Any] | Iterable[Any],
        collate: Callable[[list[Any]], Any] | None = None,
    ) -> None:
        self._call: Callable[[np.random.Generator, int], Any] | None = None
        self._iterator: Iterator[Any] | None = None
        self._collate = stack if collate is None else function("collate", collate)
        if callable(source):
            takes("stream", source, "rng", "size")
            self._call = source
        elif not isinstance(source, str | bytes | Mapping):
            with suppress(TypeError):  # not iterable
                self._iterator = iter(source)
        if self._call is None and self._iterator is None:
            raise TypeError(
                "stream must be an iterator of samples or a callable source(rng, size) -> batch, "
                f"got {type(source).__name__}"
            )

    def take(self, size: int, rng: np.random.Generator) -> Sample:
        """The next `size` samples, as one batch."""
        size = whole_number("size", size, 1)
        required_generator(rng)
        if self._call is not None:
            batch = self._call(rng, size)
            _check_batch(batch, size)
            return StreamBatch(batch, size)
        assert self._iterator is not None
        items = list(islice(self._iterator, size))
        if len(items) < size:
            raise StreamEnded(f"the stream ended: {size} samples were wanted, {len(items)} came")
        try:
            return StreamBatch(self._collate(items), size)
        except (TypeError, ValueError, KeyError, IndexError, RuntimeError) as error:
            if self._collate is not stack:
                raise
            raise ValueError(
                f"the samples of the stream's source do not make a batch ({error}); give collate="
            ) from error


def _check_batch(batch: Any, size: int) -> None:
    """ValueError if no array in `batch` has `size` samples along its first axis."""
    parts = batch.values() if isinstance(batch, Mapping) else batch
    if not isinstance(batch, Mapping | tuple):
        parts = [batch]
    counts = [len(part) for part in parts if isinstance(part, list) or np.ndim(part)]
    if counts and size not in counts:
        raise ValueError(
            f"stream(rng, {size}) must return {size} samples along the first axis, "
            f"got {' and '.join(map(str, counts))}"
        )


@stored
class StreamBatch:
    """A batch from a stream, with the number of samples in it."""

    __slots__ = ("data", "size")

    def __init__(self, data: Any, size: int) -> None:
        self.data = data
        self.size = size


class StreamEnded(ValueError):
    """A stream had fewer samples than were asked for."""

    status = "stream_ended"  # of the run which it ends, see `Result.status`


def stack(items: list[Any]) -> Any:
    """One batch from single samples: arrays are stacked; tuples and dicts entry by entry."""
    first = items[0]
    if isinstance(first, dict):
        return {key: stack([item[key] for item in items]) for key in first}
    if isinstance(first, tuple):
        return tuple(stack([item[i] for item in items]) for i in range(len(first)))
    if type(first).__module__.startswith("torch"):
        import torch

        return torch.stack(items)
    return np.stack(items)


class Minibatch:
    """b fresh terms each time: SGD and SCCD."""

    recursive = False

    def __init__(self, source: int | Source, b: int) -> None:
        self.source = _source(source)
        self.b = self.b_small = batch_size("b", b, self.source.n)
        self.p = 1.0

    def __repr__(self) -> str:
        return f"Minibatch(n={self.source.n}, b={self.b})"

    def large(self, rng: np.random.Generator) -> Sample:
        """b terms."""
        return self.source.take(self.b, rng)

    def draw(self, rng: np.random.Generator) -> tuple[Sample, bool]:
        """The coin, then b or b' terms; with p = 1, b terms and always a fresh gradient."""
        refresh = coin(rng, self.p)
        return self.source.take(self.b if refresh else self.b_small, rng), refresh

    def size(self, sample: Sample) -> float:
        """How many terms `sample` has."""
        if sample is ALL:
            return self.source.n
        if isinstance(sample, StreamBatch):
            return float(sample.size)
        try:
            return float(len(sample))
        except TypeError:
            raise TypeError(
                f"sample must be ALL, an array of indices or a batch, got {shown(sample)}"
            ) from None


class Full(Minibatch):
    """Every term, every time: the deterministic methods."""

    def __init__(self, n: int = 1) -> None:
        self.n = whole_number("n", n, 1, LARGEST_INDEX)
        super().__init__(self.n, self.n)

    def __repr__(self) -> str:
        return f"Full(n={self.n})"


def coin(rng: np.random.Generator, p: float) -> bool:
    """The coin of Algorithm 2, line 6, with probability p; with p = 1 none is tossed."""
    return p == 1.0 or bool(rng.random() < p)


def page_defaults(b: int, b_small: int | None = None, p: float | None = None) -> tuple[int, float]:
    """b' and p, as given or as in the paper: b' = ⌊√b⌋ and p = b'/(b + b')."""
    small = math.isqrt(b) if b_small is None else b_small
    return small, small / (b + small) if p is None else p


class Page(Minibatch):
    """The PAGE estimator's draw: b terms with probability p, else b' terms (Algorithm 2, line 6).

    Defaults are the paper's: b' = ⌊√b⌋ and p = b'/(b + b').

    Example
    -------
    >>> Page(60_000, b=512)
    Page(n=60000, b=512, b_small=22, p=0.0412)
    """

    recursive = True

    def __init__(
        self, source: int | Source, b: int, b_small: int | None = None, p: float | None = None
    ) -> None:
        super().__init__(source, b)
        if b_small is not None:
            b_small = batch_size("b_small", b_small, self.b, "b")
        if p is not None:
            require(0.0 < as_float(p) <= 1.0, "p", p, "in (0, 1]")
            p = as_float(p)
        self.b_small, self.p = page_defaults(self.b, b_small, p)

    def __repr__(self) -> str:
        return f"Page(n={self.source.n}, b={self.b}, b_small={self.b_small}, p={self.p:.3g})"


def _source(source: int | Source) -> Source:
    if callable(getattr(source, "take", None)) and hasattr(source, "n"):
        return source  # type: ignore[return-value]
    accepted = "source must be a number n of terms or a source of samples (FiniteSum, Stream)"
    try:
        return FiniteSum(source)  # type: ignore[arg-type]
    except ValueError as error:
        raise ValueError(f"{accepted}: {error}") from None


def batch_size(name: str, size: Any, most: float, most_name: str = "n") -> int:
    """`size` as a whole number from 1 to `most`, or a ValueError that names it."""
    number = whole_number(name, size, -math.inf)
    require(1 <= number <= most, name, size, f"between 1 and {most_name} = {most}")
    return number


def required_generator(rng: Any) -> np.random.Generator:
    """`rng`, if it is a generator."""
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator, got {shown(rng)}")
    return rng

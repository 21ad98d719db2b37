"""What the kernels of a step on LeNet must take at least, by multiply-adds, bytes and launches.

A kernel takes no less than its multiply-adds at the peak of float32 arithmetic, its bytes at the
bandwidth of the memory, or what any kernel takes. The sums are over the kernels that
`cyclade.optim.layers` runs under capture; everything else counts as a launch.

    python benchmarks/nets_bounds.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

BATCH = 512
FLOPS, BYTES, LAUNCH = 67e12, 4.3e12, 1.5e-6  # an H200: a second, a second, seconds
KERNELS = Path(__file__).parent.parent / "docs" / "benchmarks" / "nets-h200-kernels.json"


@dataclass(frozen=True)
class Convolution:
    """A convolution of stride 1 with bias, ReLU and pooling over 2 x 2."""

    inputs: int
    outputs: int
    kernel: int
    size: int  # of the image that comes in

    def seconds(self, what: str) -> float:
        """The least for one kernel: forward, or the gradient of its weights or of its input."""
        out = self.size - self.kernel + 1
        madds = BATCH * out * out * self.outputs * self.inputs * self.kernel**2
        before = BATCH * self.inputs * self.size**2
        after = BATCH * self.outputs * (out // 2) ** 2
        moved = {
            "forward": before + after,
            "weight": before + 2 * after,
            "input": before + 2 * after,
        }
        return max(2 * madds / FLOPS, 4 * moved[what] / BYTES, LAUNCH)


LAYERS = (Convolution(3, 6, 5, 32), Convolution(6, 16, 5, 14))
# How often a step runs each: a cycle goes forward through layer i for every block up to it, and
# once more to get past it; the input of the second layer has a gradient in the first block's turn.
RUNS = {
    "SGD": {"forward": (1, 1), "weight": (1, 1), "input": (0, 1)},
    "SCCD": {"forward": (2, 3), "weight": (1, 1), "input": (0, 1)},
}


def microseconds(step: str, what: str) -> float:
    """The least for all convolutions of a kind in a step."""
    runs = zip(RUNS[step][what], LAYERS, strict=True)
    return 1e6 * sum(count * layer.seconds(what) for count, layer in runs)


def measured(step: str) -> list[dict[str, float | str]]:
    """The kernels of a step, from the committed profile."""
    steps = json.loads(KERNELS.read_text("utf-8"))["steps"]
    found: list[dict[str, float | str]] = next(s["kernels"] for s in steps if s["step"] == step)
    return found


def others(step: str) -> tuple[int, float]:
    """The kernels of a step that are no convolutions, and the microseconds measured for them."""
    names = ("conv_", "dgrad", "scalePackedTensor", "sum_parts", "unpool")
    rest = [r for r in measured(step) if not any(n in str(r["kernel"]) for n in names)]
    return round(sum(float(r["count"]) for r in rest)), sum(float(r["us"]) for r in rest)


def least(step: str) -> float:
    """Milliseconds that a step takes at least."""
    convolutions = sum(microseconds(step, what) for what in RUNS[step])
    return (convolutions + 1e6 * LAUNCH * others(step)[0]) / 1e3


def main() -> None:
    """Print the bounds."""
    for step in RUNS:
        parts = [f"{what} {microseconds(step, what):.0f} µs" for what in RUNS[step]]
        count, us = others(step)
        print(f"{step}: convolutions", *parts, sep="  ", end="")
        print(f"  {count} other kernels {1e6 * LAUNCH * count:.0f} µs (measured {us:.0f})", end="")
        print(f"  in all {least(step):.2f} ms")


if __name__ == "__main__":
    main()

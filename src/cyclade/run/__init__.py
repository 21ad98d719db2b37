"""What a run is: `runner` drives `core.iterate` to its end, `stopping` says when that is.

`arguments` reads and checks what `minimize` is given, `watching` shows a run and waits with an
interrupt, `result` is what it returns. `extrapolation` and `exact_blocks` are options of P-CCD.
"""

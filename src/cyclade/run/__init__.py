"""What a run is: `runner` drives `core.iterate` to its end, `stopping` says when, and watches.

`arguments` reads and checks what `minimize` is given, `result` is what it returns. `extrapolation`
and `exact_blocks` are options of P-CCD.
"""

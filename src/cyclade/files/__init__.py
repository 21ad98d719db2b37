"""Files that survive kills, full disks and strangers; used by everything, importing nothing above.

`writing`: whole files or none, and what cut-off writes leave. `reading`: regular files of bounded
size and depth. `names`: which names become paths, and how they are printed. `lock`: one process in
a folder. `sealed`: archives that show every changed bit, and states of torch in them; with `arrays`
(NumPy) and `objects` (what a run carries, and which run a file belongs to) for their content.
`checkpoint`: that of a run of `minimize`.
"""

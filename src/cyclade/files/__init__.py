"""Files that survive kills, full disks and strangers; used by everything, importing nothing above.

`disk`: whole files or none, what cut-off writes leave, and reading regular files of bounded
size and depth. `names`: which names become paths. `lock`: one process in
a folder. `sealed`: archives that show every changed bit, and states of torch in them; with `arrays`
(NumPy) and `objects` (what a run carries, and which run a file belongs to) for their content.
`checkpoint`: that of a run of `minimize`.
"""

"""Files that survive kills, full disks and strangers; used by everything, importing nothing above.

`disk`: whole files or none, what cut-off writes leave, and reading regular files of bounded
size and depth. `lock`: one process in a folder. `sealed`: archives that show every changed bit, and
states of torch in them. `checkpoint`: of one run, in such an archive of NumPy; `objects`: what a
run carries, as arrays, and which run a file belongs to.
"""

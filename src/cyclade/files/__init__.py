"""Files that survive kills, full disks and strangers; used by everything, importing nothing above.

`names`: which names and places are taken from a file that somebody else made.
"""

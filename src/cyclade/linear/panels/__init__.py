"""Copies of the columns of a working set, weighted and centred, that cycles run on."""

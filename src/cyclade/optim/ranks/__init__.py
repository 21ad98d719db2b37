"""One batch over many processes: what ranks agree on, and what they sum."""

"""Which parameters form a block: by layer, by name, or by what a cycle may cost."""

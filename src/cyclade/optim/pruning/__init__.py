"""Dead rows and channels: counted, and taken out of a model with its outputs unchanged."""

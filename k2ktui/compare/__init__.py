"""Compare the content of source and target, every retained record: ``k2ktui compare``."""

"""A pipeline's own positions: planned, written, recovered, accepted with other clusters."""

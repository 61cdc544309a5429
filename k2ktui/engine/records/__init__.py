"""Records that a pipeline keeps on the target: positions, mapping ranges, runs; pure."""

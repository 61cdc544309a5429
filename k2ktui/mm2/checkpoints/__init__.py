"""MirrorMaker 2's checkpoints as a plan of commits."""

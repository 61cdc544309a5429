"""A flow of MirrorMaker 2 as a pipeline file."""

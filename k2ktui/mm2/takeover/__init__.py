"""A pipeline continues where a stopped MirrorMaker 2 ended."""

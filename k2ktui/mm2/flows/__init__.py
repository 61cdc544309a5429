"""A flow of MirrorMaker 2: its files, clusters, topics and mappings."""

"""Stored positions of a MirrorSourceConnector."""

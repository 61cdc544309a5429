"""Mappings and positions, read from the target."""

"""Positions on a copy, found by comparing records."""

"""Preflight checks of a pipeline: each is pass, fail, warning or could-not-check."""

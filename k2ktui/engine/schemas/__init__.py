"""Schemas of a pipeline's records, and their ids on both registries; pure."""

"""Moves of groups and positions: snapshot, plan, apply, undo."""

"""Widgets that draw line by line, and only what has changed: a full repaint costs 18 KB."""

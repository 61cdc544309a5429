"""Widgets that draw line by line, and only what has changed: a whole repaint costs 18 KB."""

"""The console: screens over the views of :mod:`k2ktui.watch`; it computes nothing itself.

``open_console`` in :mod:`k2ktui.console.app` runs it. :mod:`k2ktui.console.screens` describes how
to add a screen.
"""

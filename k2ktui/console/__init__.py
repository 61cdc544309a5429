"""The console: screens over the views of :mod:`k2ktui.watch`; it computes nothing of its own.

``open_console`` in :mod:`k2ktui.console.app` runs it. How a screen is added is told in
:mod:`k2ktui.console.screens`.
"""

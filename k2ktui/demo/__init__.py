"""``k2ktui demo``: two real clusters, traffic whose offsets diverge, and a pipeline between them.

:func:`k2ktui.demo.app.run` runs all of it; the other modules are its parts.
"""

"""Site drills: several pipelines of a directory that leave one cluster together.

The interface that commands and screens use is stable: :mod:`k2ktui.site.operations` (one call each:
select, start, resume, abort, list, read), :class:`k2ktui.drill.operator.Operator`,
:class:`k2ktui.engine.drill.site.SiteDrill`, and :mod:`k2ktui.site.report`.
"""

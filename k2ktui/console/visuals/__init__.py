"""Shapes and frames that all screens share: a figure is seen before it is read.

Frames are widgets. :class:`~k2ktui.console.visuals.panel.Panel` is a border with a title and a
note; :class:`~k2ktui.console.visuals.panel.Tile` is a panel with a few lines;
:class:`~k2ktui.console.visuals.sums.Sums` is a row of tiles with totals;
:class:`~k2ktui.console.visuals.chart.Chart` is a panel with a value over time.

Shapes are functions that return a ``Line`` or a list of them, for a tile, a panel or the cell of a
table (``picture_cell``): ``bar``, ``log_bar``, ``sparkline``, ``divergence``, ``jump``, ``strip``,
``log_strip``, ``markers`` and ``journey`` in :mod:`~k2ktui.console.visuals.shapes`, ``cell_map``
and ``legend`` in :mod:`~k2ktui.console.visuals.cell_map`, ``timeline`` in
:mod:`~k2ktui.console.visuals.timeline`.

Every shape is drawn for a width, tells its story without color (signs differ, too), has an ASCII
form, and never draws an unknown value as zero. ``tests/console/test_visuals.py`` has a picture of
all of them.
"""

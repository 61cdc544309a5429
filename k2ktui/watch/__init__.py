"""A pipeline watched over time: views, their sources, recordings. Draws no screen.

- ``model``: one frozen :class:`~k2ktui.watch.model.View`; ``codec`` converts it to and from JSON.
- ``readers``: read each part; ``pipeline_reader`` keeps what was read; ``assemble`` makes a view of
  it, with ``history``.
- ``severity``: which findings are problems, and how severe they are.
- ``feed``: what supplies views; ``poller`` is live, ``player`` replays a recording; ``once`` is a
  single view.
"""

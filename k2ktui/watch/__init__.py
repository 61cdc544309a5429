"""A pipeline watched over time: views, their sources, recordings. Draws no screen.

- ``model``: one frozen :class:`~k2ktui.watch.model.View`; ``codec`` converts it to and from JSON.
- ``readers``: read each cluster; ``assemble`` builds a view from the facts, with ``history``.
- ``severity``: which findings are problems, and how severe they are.
- ``feed``: the interface that supplies views; ``poller`` is live, ``player`` replays a recording.
"""

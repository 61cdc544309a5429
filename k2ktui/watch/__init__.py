"""A pipeline watched over time: views of it, what makes them, recordings. No screen is drawn here.

- ``model``: one frozen :class:`~k2ktui.watch.model.View`, and its JSON (``codec``).
- ``reading``: what is read of each cluster; ``assemble`` makes a view of it, with ``history``.
- ``severity``: what is a problem, and how bad.
- ``feed``: what shows views asks for; ``poller`` is a live one, ``player`` replays a recording.
"""

"""The kinds of changes of a drill: what is shown of a recorded one, and how it is restored.

What a drill records of each, and how it is undone by hand, is in ``engine/drill/changes.py``. The
phases make the changes.
"""

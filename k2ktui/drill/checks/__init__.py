"""The checks of a drill: functions that register themselves with ``@check``, by what they check.

A check reads both clusters through a :class:`.context.CheckContext`, changes nothing, and returns
``passes``, ``fails`` or ``could_not_check`` (``engine/drill/checks.py``). :mod:`.suite` runs them.

Screens and reports take titles from the drill's record and import no check. Only code that decides
which failures stop a drill imports :mod:`.catalog`, and with it all checks and the client
libraries.
"""

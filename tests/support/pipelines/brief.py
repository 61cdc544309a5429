"""``python -m k2ktui`` with shorter waits, for tests of what a run does when they are over."""

from __future__ import annotations

import runpy

from k2ktui.replication.reports import stopped

if __name__ == "__main__":
    # Of 30 and 20 s; before the modules that take the first one from there are imported. Longer
    # than the longest pause between laps: what is due in each lap would hold its slot up for ever.
    stopped.RETRY_S = stopped._RETRY_TOO_LARGE_S = 8.0  # noqa: SLF001
    from k2ktui import runs

    # Of a minute: for so long, three heartbeats have failed.
    runs._SILENT_S = 15.0  # noqa: SLF001
    runpy.run_module("k2ktui", run_name="__main__", alter_sys=True)

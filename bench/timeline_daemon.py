"""``copy_daemon`` with times: see ``bench.timeline``."""

from __future__ import annotations

import gc
import time

import psutil

from bench.timeline import install, note

if __name__ == "__main__":
    install()
    from k2ktui.replication.spark.daemon import serve

    began, freeze = time.time(), gc.freeze
    note("daemon starts Python", psutil.Process().create_time(), began)

    def freeze_and_note() -> None:
        """What the daemon does before it serves."""
        note("daemon imports", began, time.time())
        freeze()

    gc.freeze = freeze_and_note
    serve("k2ktui.replication.copying.worker")

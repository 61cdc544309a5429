"""The threads of the console's background jobs."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


class _AbandonedExecutor(ThreadPoolExecutor):
    """Threads that do not delay the exit while they wait for a cluster."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Return at once; asyncio would wait."""
        super().shutdown(wait=False, cancel_futures=True)


def abandon_on_exit() -> None:
    """Let the running event loop end without waiting for the threads of its jobs."""
    asyncio.get_running_loop().set_default_executor(_AbandonedExecutor())

"""What Kubernetes asks of a run: whether its process is stuck, and whether it takes part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from k2ktui.text import duration

if TYPE_CHECKING:
    from k2ktui.runtime.http_server import HttpServer, Request, Response

# All requests to clusters have deadlines, of a minute or two; what waits for longer never ends.
# Shorter would restart runs during an outage, which cures nothing.
STUCK_S = 900.0


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether a run takes part, and why not, or what it does; the text is safe to print."""

    is_ready: bool
    text: str


def serve_probes(
    server: HttpServer, idle_s: Callable[[], float], readiness: Callable[[], Readiness]
) -> None:
    """Answer probes.

    Args:
        server: the server.
        idle_s: returns the seconds since the run's loop began its last turn.
        readiness: returns whether the run takes part.
    """

    # Deferred: most runs serve nothing, and a start loads no more than it needs.
    from k2ktui.runtime.http_server import LIVE, READY, Response

    def live(_: Request) -> Response:
        idle = idle_s()
        if idle <= STUCK_S:
            return Response.text("alive")
        return Response.text(f"stuck: nothing has moved for {duration(idle)}", ok=False)

    def ready(_: Request) -> Response:
        state = readiness()
        return Response.text(state.text, ok=state.is_ready)

    server.pages[LIVE] = live
    server.pages[READY] = ready

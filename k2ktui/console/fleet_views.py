"""The pipelines of a directory as what the console takes its views from."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.fleet.feed import FleetFeed
from k2ktui.fleet.files import PipelineFile
from k2ktui.fleet.model import FleetRow
from k2ktui.watch.feed import Listener
from k2ktui.watch.history import Sample
from k2ktui.watch.model import PipelinePair, RangeRow, View


class FleetViews:
    """A feed whose views say only that a row is new; the rows are in :attr:`rows`.

    Closing it leaves the rows being read: a console that comes back finds them.

    Args:
        fleet: reads the pipelines; it was started.
        pair: what the header names.
    """

    replay = False

    def __init__(self, fleet: FleetFeed, pair: PipelinePair) -> None:
        self._fleet, self._pair = fleet, pair
        self.paused, self.interval = fleet.paused, fleet.interval

    @property
    def rows(self) -> Sequence[FleetRow]:
        """The last row of each pipeline."""
        return self._fleet.rows

    @property
    def files(self) -> Sequence[PipelineFile]:
        """The pipeline files of the directory."""
        return self._fleet.files

    def start(self, listener: Listener) -> None:
        """Pass a view for each row that was read; the first one at once."""
        self._fleet.listen(lambda row: listener(self._view()))
        listener(self._view())

    def refresh(self) -> None:
        """Read every pipeline now."""
        self._fleet.refresh()

    def pause(self, on: bool) -> None:
        """Pause, or resume and read every pipeline now."""
        self.paused = on
        self._fleet.pause(on)

    def set_interval(self, seconds: float) -> None:
        """Set the interval in seconds; with many pipelines it is longer."""
        self._fleet.set_interval(seconds)
        self.interval = self._fleet.interval

    def now(self) -> float:
        """Return the current epoch time in seconds."""
        return self._fleet.now()

    def series(self, topic: str, partition: int) -> Sequence[Sample]:
        """Return nothing: a row is no partition."""
        return ()

    def ranges(self, topic: str, partition: int) -> Sequence[RangeRow]:
        """Return nothing: a row is no partition."""
        return ()

    def close(self) -> None:
        """Pass no more views."""
        self._fleet.listen(lambda row: None)

    def _view(self) -> View:
        return View(self._pair, self.now(), {})

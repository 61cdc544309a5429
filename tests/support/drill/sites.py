"""Site drills on real clusters: pipelines of one directory, and an operator who is asked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillOptions
from k2ktui.engine.drill.site import SiteDrill
from k2ktui.fleet.files import PipelineFile, read_directory
from k2ktui.runtime.node import KafkaNode
from k2ktui.site.operations import SiteActor, SiteChoice, start_site
from tests.support.clusters.kafka import TIMEOUT, admin, await_stable
from tests.support.drill.runs import QUICK, Pair


@dataclass
class SiteYes:
    """An operator who agrees, except to phases and kinds of questions that are refused."""

    refuses: frozenset[DrillPhase | QuestionKind] = frozenset()
    questions: list[Question] = field(default_factory=list)
    seen: list[SiteDrill] = field(default_factory=list)

    def show(self, site: SiteDrill) -> None:
        """Remember what was shown."""
        self.seen.append(site)

    def ask(self, question: Question) -> bool:
        """Agree, except to what is refused."""
        self.questions.append(question)
        return question.kind not in self.refuses and question.step not in self.refuses

    def asked(self, kind: QuestionKind) -> list[Question]:
        """Return the questions of a kind."""
        return [question for question in self.questions if question.kind is kind]

    @property
    def phases(self) -> list[str]:
        """The phases that were asked about, in order."""
        return [question.step for question in self.asked(QuestionKind.PHASE)]


@dataclass
class Site:
    """Pipelines in one directory."""

    directory: Path

    def __post_init__(self) -> None:
        self.directory.mkdir()
        self.pairs: list[Pair] = []

    def add(self, source: KafkaNode, target: KafkaNode, **settings: object) -> Pair:
        """Add a pipeline whose run record names its clusters."""
        pair = Pair(self.directory, source, target, settings)
        pair.copied.put_run()
        self.pairs.append(pair)
        # Each look at it writes the file anew: with the same contents.
        assert pair.file.exists()
        return pair

    @property
    def files(self) -> Sequence[PipelineFile]:
        """The files of the directory, once what drills have written can be read."""
        for copied in (pair.copied for pair in self.pairs if pair.target.running):
            if copied.state in admin(copied.target).list_topics(timeout=TIMEOUT).topics:
                await_stable(copied.target, copied.state)
        return read_directory(self.directory)

    def actor(self, operator: SiteYes | None = None, *, unlock: bool = False) -> SiteActor:
        """Return who acts on its drills."""
        return SiteActor(self.files, operator or SiteYes(), unlock)

    def start(
        self,
        kind: DrillKind,
        cluster: str,
        operator: SiteYes | None = None,
        options: DrillOptions = QUICK,
        **choice: object,
    ) -> SiteDrill:
        """Begin a site drill in this process."""
        chosen = SiteChoice(cluster, **choice)  # type: ignore[arg-type]
        return start_site(self.actor(operator), kind, options, chosen)

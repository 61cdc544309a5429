"""Consumer groups of one cluster: their states, members and committed offsets.

Requests are batched for thousands of groups, and an error of one group does not affect the others.

A cluster creates ``__consumer_offsets`` on the first lookup of a group coordinator. To keep the
source read-only, requests there cover only groups that its brokers list; the broker that lists a
group is its coordinator.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any
from uuid import uuid4

from kafka.protocol.consumer.group import OffsetFetchRequest

from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.unreachable import no_connection
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, back_off
from k2ktui.kafka.wire.codes import Code, code_name
from k2ktui.kafka.wire.group_coordinator import (
    BatchRequest,
    GroupCoordinatorClient,
    GroupError,
)
from k2ktui.kafka.wire.group_messages import (
    HAS_MEMBERS,
    OUTCOME_UNKNOWN,
    ConsumerGroupDescribeRequest,
    FetchedOffsets,
    GroupCommit,
    GroupListing,
    GroupOffsets,
    GroupState,
    Member,
    PartitionCodes,
    TopicPartition,
    commit_offsets,
    delete_groups,
    delete_offsets,
    describe_error,
    describe_groups,
    fetch_offsets,
    join_groups,
    leave_groups,
    list_request,
    read_listing,
)

__all__ = [
    "HAS_MEMBERS",
    "OUTCOME_UNKNOWN",
    "ConsumerGroupClient",
    "GroupCommit",
    "GroupListing",
    "GroupOffsets",
    "GroupState",
    "Member",
]

_SOURCE = "source"
_COMMITS = "__consumer_offsets"
# Seconds in which brokers that have just started elect the leaders of that topic.
_ELECTION_S = 5.0
# Number of unanswered attempts (about half a second) after which closed ports end the retries.
_CLOSED_AFTER = 4
# Kinds for which the listing is the only source of details; share groups commit no offsets.
_LISTED_ONLY = frozenset({"share", "streams"})

_NO_KIP_848 = GroupError(Code.UNSUPPORTED_VERSION)
_NOT_IN_RESPONSE = GroupError(Code.NONE, "the broker's response does not contain it", doubtful=True)

WriteErrors = dict[str, dict[TopicPartition, str]]


class ConsumerGroupClient(GroupCoordinatorClient):
    """Client for the consumer groups of one cluster; not thread-safe.

    Args:
        options: wire options, from ``k2ktui.kafka.properties.translation``.
        label: ``source`` or ``target``; the source is read-only, unless ``writes_source``.
        patience: seconds without progress after which retries stop for coordinators that move,
            load or do not answer.
        stable_patience: seconds to wait for transactions with pending offset commits.
        writes_source: an operator resets groups of the source.

    Attributes:
        incomplete_reason: why the last listing may be incomplete; "" if it is complete.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        label: str,
        *,
        patience: float = 30.0,
        stable_patience: float = 5.0,
        writes_source: bool = False,
    ) -> None:
        super().__init__(options, label, patience)
        self._is_read_only = label == _SOURCE and not writes_source
        self._stable_patience = stable_patience
        self.incomplete_reason = ""
        self._may_describe_commits = True

    def list(self) -> dict[str, GroupListing]:
        """Return the groups that the principal may describe; sets ``incomplete_reason``.

        Raises:
            ConnectionFailed: no broker accepts connections.
            TimedOut: no broker answered.
        """
        return self.run(lambda _: self._list())

    def describe(
        self, names: Iterable[str], listed: Mapping[str, GroupListing] | None = None
    ) -> dict[str, GroupState]:
        """Return the state and members of groups.

        ``listed`` is the last result of :meth:`list`; without it, the groups are listed again. On
        the source, groups that are not listed, including those that the principal may not
        describe, are reported as nonexistent.

        Raises:
            ConnectionFailed, TimedOut: as for :meth:`list`.
        """
        return self.run(lambda _: self._describe(list(names), listed))

    def read_committed(
        self, names: Iterable[str], listed: Mapping[str, GroupListing] | None = None
    ) -> dict[str, GroupOffsets]:
        """Return all committed offsets of groups; the arguments are those of :meth:`describe`.

        If an open transaction has a pending offset commit (KIP-447), this method waits up to
        ``stable_patience`` seconds for it to end. If it stays open, the previously committed offset
        is returned, and the partition is ``unsettled``. Brokers omit offsets of topics that the
        principal may not describe, and a group's first commit of a partition while its transaction
        is open.

        Raises:
            TimedOut: no broker answered.
        """
        return self.run(lambda _: self._read_committed(list(names), listed))

    def find_gone(self, names: Iterable[str]) -> set[str]:
        """Return which groups do not exist: their coordinators know neither them nor a commit.

        A group whose coordinator refuses to answer is not among them. Ask it only where the topic
        of commits exists: looking for a coordinator creates it.

        Raises:
            TimedOut: no broker answered.
        """
        return self.run(lambda _: self._find_gone(list(names)))

    def commit(self, commits: Mapping[str, Mapping[TopicPartition, GroupCommit]]) -> WriteErrors:
        """Commit offsets of groups that have no members.

        If a coordinator does not answer, the same offsets are sent again.

        Returns:
            For each group and partition, "" if it was committed, otherwise the reason, which
            starts with ``HAS_MEMBERS`` if the group has members.

        Raises:
            Refused: this client is connected to the source, and may only read.
        """
        self._refuse_source("No offset was committed.")
        return self._write(commits, commit_offsets(commits), "Read")

    def delete_offsets(self, where: Mapping[str, Collection[TopicPartition]]) -> WriteErrors:
        """Delete committed offsets; returns and raises the same as :meth:`commit`.

        An offset or a group that does not exist counts as deleted.
        """
        self._refuse_source("No offset was deleted.")
        return self._write(where, delete_offsets(where), "Delete")

    def delete(self, names: Iterable[str]) -> dict[str, str]:
        """Delete groups that have no members, with their offsets.

        Returns:
            For each group, "" if it does not exist any more, otherwise the reason.

        Raises:
            Refused: this client is connected to the source, and may only read.
        """
        self._refuse_source("No group was deleted.")
        answers = self.run(lambda _: self._ask(list(names), delete_groups()))
        return {
            name: describe_error(answer, self._label, "Delete")
            if isinstance(answer, GroupError)
            else ""
            for name, answer in answers.items()
        }

    def make_consumer_groups(self, topics: Mapping[str, str]) -> dict[str, str]:
        """Make groups consumer-protocol groups (KIP-848); offsets stay, members rebalance.

        A group that only has commits is a classic one. A running member of the other protocol,
        which has been in the group on another cluster, ends there instead of joining it anew.

        Args:
            topics: for each group, a topic of it that exists.

        Returns:
            For each group, "" if it is one now, otherwise the reason.

        Raises:
            Refused: this client is connected to the source, and may only read.
        """
        self._refuse_source("No group was changed.")
        if not self._knows_consumer_groups():
            why = f"the {self._label} cluster has no groups of the protocol consumer"
            return dict.fromkeys(topics, why)
        member = str(uuid4())
        joined = self.run(lambda _: self._ask(list(topics), join_groups(topics, member)))
        # A group that did not answer may have the member; it would expire, too.
        left = self.run(lambda _: self._ask(list(topics), leave_groups(member)))
        return {
            group: describe_error(answer, self._label, "Read")
            if isinstance(answer := joined[group], GroupError)
            or isinstance(answer := left[group], GroupError)
            else ""
            for group in topics
        }

    def _refuse_source(self, unchanged: str) -> None:
        if self._is_read_only:
            raise Refused("groups of the source cluster are only read", unchanged=unchanged)

    def _write(
        self,
        wanted: Mapping[str, Collection[TopicPartition]],
        request: BatchRequest[PartitionCodes],
        operation: str,
    ) -> WriteErrors:
        groups = [group for group, partitions in wanted.items() if partitions]
        answers = self.run(lambda _: self._ask(groups, request))
        errors: WriteErrors = {group: {} for group in wanted}
        for group, answer in answers.items():
            errors[group] = self._explain_codes(wanted[group], answer, operation)
        return errors

    def _explain_codes(
        self,
        partitions: Iterable[TopicPartition],
        answer: PartitionCodes | GroupError,
        operation: str,
    ) -> dict[TopicPartition, str]:
        if isinstance(answer, GroupError):
            return dict.fromkeys(partitions, describe_error(answer, self._label, operation))
        texts = {
            code: describe_error(
                _NOT_IN_RESPONSE if code is None else GroupError(code), self._label, operation
            )
            for code in set(map(answer.get, partitions)) - {0}
        }
        return {where: texts.get(answer.get(where), "") for where in partitions}

    async def _list(self) -> dict[str, GroupListing]:
        before, began, attempt = self.incomplete_reason, monotonic(), 0
        while True:
            try:
                leaderless = await self._find_leaderless()
                listed, unanswered = await self._list_once()
            except (NotSent, OutcomeUnknown) as error:
                listed, unanswered, leaderless = None, str(error), ""
            self.incomplete_reason = "; ".join(filter(None, (unanswered, leaderless)))
            if not self.incomplete_reason:
                return listed or {}
            if not unanswered and self.incomplete_reason == before:
                break  # the listing before has waited for it
            if monotonic() > began + (self._patience if unanswered else _ELECTION_S):
                break
            if listed is None and attempt == _CLOSED_AFTER and (why := self._wire.refusal()):
                raise no_connection(self._label, why)
            # The groups of a failed broker move to others, so every broker is asked again.
            await self._loop.sleep(back_off(attempt))
            attempt += 1
        if listed is None:
            raise TimedOut(
                f"the {self._label} cluster did not list its groups within "
                f"{self._patience:g} s: {self.incomplete_reason}",
                hint="Check that its brokers are up and reachable from here.",
            )
        return listed

    async def _find_leaderless(self) -> str:
        """Return which groups no broker can list, whatever it answers; "" if there are none.

        Brokers list the groups of the partitions that they lead, and say nothing of the others.
        Without the right to describe the topic it cannot be told, and is asked only once.
        """
        if not self._may_describe_commits:
            return ""
        patience = min(self._patience, _ELECTION_S)
        topic = (await self._wire.metadata([_COMMITS], patience)).get(_COMMITS)
        if topic is None:
            return ""
        self._may_describe_commits = topic.error != Code.TOPIC_AUTHORIZATION_FAILED
        missing = sum(leader.node < 0 for leader in topic.partitions.values())
        if not missing:
            return ""
        return f"{missing} of {len(topic.partitions)} partitions of {_COMMITS} have no leader"

    async def _list_once(self) -> tuple[dict[str, GroupListing] | None, str]:
        """Ask every broker once; return the groups (None if no broker answered) and the errors."""
        kind = "" if self._knows_consumer_groups() else "classic"
        listed: dict[str, GroupListing] = {}
        failed: list[str] = []
        answers = await self._ask_all_brokers(list_request)
        for node, response in answers.items():
            code = (
                Code.NETWORK_EXCEPTION if isinstance(response, GroupError) else response.error_code
            )
            if code:
                failed.append(_listing_error(node, response))
                continue
            for group in read_listing(response, kind):
                listed[group.group] = group
                self._coordinators[group.group] = node
        return (listed if len(failed) < len(answers) else None), "; ".join(failed)

    def _knows_consumer_groups(self) -> bool:
        return self._wire.version_of(ConsumerGroupDescribeRequest) >= 0

    async def _describe(
        self, names: Collection[str], listed: Mapping[str, GroupListing] | None
    ) -> dict[str, GroupState]:
        listed = await self._list() if listed is None else listed
        states = {name: self._as_listed(name, listed) for name in names}
        groups = [n for n in self._askable(names, listed) if states[n].kind not in _LISTED_ONLY]
        modern = [n for n in groups if states[n].kind == "consumer"]
        classic = [n for n in groups if states[n].kind != "consumer"]
        answers = await self._ask_states(classic, modern)
        for name, answer in answers.items():
            if isinstance(answer, GroupError):
                why = describe_error(answer, self._label, "Describe")
                states[name] = replace(states[name], error=why)
            else:
                states[name] = answer
        return states

    async def _ask_states(
        self, classic: Collection[str], modern: Collection[str] = ()
    ) -> dict[str, GroupState | GroupError]:
        """Ask for groups as classic ones, and for those not found and ``modern`` as consumers."""
        answers = await self._ask(classic, describe_groups("classic"))
        if self._knows_consumer_groups():
            # A group whose kind was unknown or has changed is not found as a classic one.
            gone = [n for n, answer in answers.items() if answer == GroupState(n, "", "")]
            described = await self._ask([*modern, *gone], describe_groups("consumer"))
            # Without the feature group.version (Kafka 3.9, or a cluster upgraded from it), brokers
            # offer this request and refuse it: there, the answer about classic groups is complete.
            answers |= {n: a for n, a in described.items() if n not in answers or a != _NO_KIP_848}
        return answers

    async def _find_gone(self, names: Collection[str]) -> set[str]:
        answers = await self._ask_states(names)
        gone = [name for name, answer in answers.items() if answer == GroupState(name, "", "")]
        # Groups of other kinds have commits, too, and are not found by either request.
        commits = await self._fetch(gone)
        return {
            name
            for name, answer in commits.items()
            if isinstance(answer, FetchedOffsets)
            and not (answer.offsets or answer.refused or answer.unstable)
        }

    def _as_listed(self, name: str, listed: Mapping[str, GroupListing]) -> GroupState:
        group = listed.get(name)
        if group is None:
            return GroupState(name, "", "", (), self._incomplete_listing())
        return GroupState(name, group.state, group.kind)

    def _askable(self, names: Iterable[str], listed: Mapping[str, GroupListing]) -> Sequence[str]:
        """Return the groups that can be queried without side effects on the cluster."""
        return [name for name in names if name in listed or self._label != _SOURCE]

    def _incomplete_listing(self) -> str:
        """Return why an unlisted group may still exist; "" if the listing is complete."""
        return (
            f"not every broker listed its groups: {self.incomplete_reason}"
            if self.incomplete_reason
            else ""
        )

    async def _read_committed(
        self, names: Collection[str], listed: Mapping[str, GroupListing] | None
    ) -> dict[str, GroupOffsets]:
        listed = await self._list() if listed is None else listed
        unlisted = self._incomplete_listing()
        offsets = {n: GroupOffsets(n, {}, "" if n in listed else unlisted) for n in names}
        answers = await self._fetch(self._askable(names, listed))
        for name, answer in answers.items():
            if isinstance(answer, GroupError):
                why = describe_error(answer, self._label, "Describe")
                offsets[name] = GroupOffsets(name, {}, why)
            else:
                offsets[name] = GroupOffsets(
                    name, answer.offsets, unsettled=self._explain_missing(answer)
                )
        return offsets

    async def _fetch(self, names: Collection[str]) -> dict[str, FetchedOffsets | GroupError]:
        version = self._wire.version_of(OffsetFetchRequest)
        stable = fetch_offsets(version, require_stable=True)
        answers = await self._ask(names, stable)
        until, attempt = monotonic() + self._stable_patience, 0
        while (unstable := _unstable(answers)) and monotonic() < until:
            await self._loop.sleep(back_off(attempt))
            attempt += 1
            again = await self._ask(list(unstable), stable)
            answers |= again
        unstable_offsets = await self._ask(
            list(unstable), fetch_offsets(version, require_stable=False)
        )
        for name, answer in unstable_offsets.items():
            if isinstance(answer, FetchedOffsets):
                answer.unstable = unstable[name]
            answers[name] = answer
        return answers

    def _explain_missing(self, fetched: FetchedOffsets) -> dict[TopicPartition, str]:
        open_since = (
            "a transaction that commits the offset has not ended within "
            f"{self._stable_patience:g} s; its previous committed offset is shown"
        )
        refused = {
            where: describe_error(GroupError(code), self._label, "Describe")
            for where, code in fetched.refused.items()
        }
        return dict.fromkeys(fetched.unstable, open_since) | refused


def _unstable(
    answers: Mapping[str, FetchedOffsets | GroupError],
) -> dict[str, list[TopicPartition]]:
    return {
        name: answer.unstable
        for name, answer in answers.items()
        if isinstance(answer, FetchedOffsets) and answer.unstable
    }


def _listing_error(node: int, response: Any) -> str:
    if isinstance(response, GroupError):
        return f"broker {node}: {response.reason}"
    return f"broker {node}: {code_name(response.error_code)}"

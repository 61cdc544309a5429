"""Requests to group coordinators, decoding of their responses, and error descriptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from kafka.protocol.admin.groups import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
)
from kafka.protocol.api_message import ApiMessage
from kafka.protocol.consumer.group import (
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
)

from k2ktui.engine.members import GroupMember, make_member
from k2ktui.kafka.wire.codes import GROUP_ACTIVE, Code, code_name
from k2ktui.kafka.wire.group_coordinator import PASSING, BatchRequest, GroupError
from k2ktui.kafka.wire.subscriptions import read_assignment, read_subscription

TopicPartition = tuple[str, int]

#: Prefix of every error that is due to the group having members.
HAS_MEMBERS = "the group has members"

_STABLE, _CONSUMER = "Stable", "consumer"
_SCHEMAS = "k2ktui.kafka.wire.groups_schemas"
_DESCRIBED_AT_ONCE = 100
_FETCHED_AT_ONCE = 20
_DELETED_AT_ONCE = 20
_COMMIT_LANES = 8
# A member that joins only to leave gives back no partition.
_REBALANCE_MS = 1_000
# Later versions identify topics by id, which differs after a topic is deleted and recreated.
_NAMES_TOPICS = 9


class ConsumerGroupDescribeRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc,call-arg]
    """Request for the state and members of consumer-protocol groups (KIP-848)."""


class ConsumerGroupDescribeResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc,call-arg]
    """Response to :class:`ConsumerGroupDescribeRequest`."""


class ConsumerGroupHeartbeatRequest(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc,call-arg]
    """Request of a member of a consumer-protocol group (KIP-848), also the first and the last."""


class ConsumerGroupHeartbeatResponse(ApiMessage, load_json=_SCHEMAS):  # type: ignore[misc,call-arg]
    """Response to :class:`ConsumerGroupHeartbeatRequest`."""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group that a broker lists.

    Attributes:
        group: group id.
        state: such as ``Stable`` or ``Empty``; "" for brokers that omit it (before 2.6).
        kind: ``classic``, ``consumer``, ``share``, ``streams``; "" if unknown.
    """

    group: str
    state: str
    kind: str


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group.

    Attributes:
        named: who it is, and what it is assigned.
        topics: those that it subscribes to, or is assigned; None if they are not known.
        pattern: the regular expression that the broker resolves for it (KIP-848); "" without one.
    """

    id: str
    named: GroupMember
    topics: frozenset[str] | None = None
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as its coordinator describes it.

    Attributes:
        group: group id.
        state: such as ``Stable`` or ``Empty``; "" when the group does not exist, or when
            ``error`` says why its state is unknown.
        kind: as in :class:`GroupListing`.
        members: its members; available for classic and consumer groups only.
        error: why it could not be described, for the operator; "" on success.
    """

    group: str
    state: str
    kind: str
    members: tuple[Member, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """A committed offset; ``leader_epoch`` is -1 if the consumer sent none."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """The committed offsets of a group.

    Attributes:
        group: group id.
        offsets: committed offsets by topic and partition.
        error: why none of them could be read, for the operator; "" otherwise.
        unsettled: of single partitions, why the offset is missing or not final.
    """

    group: str
    offsets: Mapping[TopicPartition, GroupCommit]
    error: str = ""
    unsettled: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(slots=True)
class FetchedOffsets:
    """One group's offsets from a response; ``refused`` maps partitions to error codes."""

    offsets: dict[TopicPartition, GroupCommit] = field(default_factory=dict)
    unstable: list[TopicPartition] = field(default_factory=list)
    refused: dict[TopicPartition, int] = field(default_factory=dict)


def list_request() -> ListGroupsRequest:
    """Return the request for all groups of a broker, in any state and of any kind."""
    return ListGroupsRequest(states_filter=[], types_filter=[], max_version=5)


def read_listing(response: Any, unknown_kind: str) -> Iterator[GroupListing]:
    """Read a broker's groups; ``unknown_kind`` is used where the broker omits the kind."""
    for group in response.groups:
        kind = (group.group_type or "").lower() or unknown_kind
        yield GroupListing(group.group_id, group.group_state or "", kind)


def describe_groups(kind: str) -> BatchRequest[GroupState]:
    """Return the request for the state and members of groups, all ``classic`` or ``consumer``."""

    def request(groups: Sequence[str]) -> DescribeGroupsRequest | ConsumerGroupDescribeRequest:
        if kind == _CONSUMER:
            return ConsumerGroupDescribeRequest(
                group_ids=list(groups), include_authorized_operations=False
            )
        return DescribeGroupsRequest(
            groups=list(groups), include_authorized_operations=False, max_version=6
        )

    def read(_: Sequence[str], response: Any) -> Iterator[tuple[str, GroupState | GroupError]]:
        for group in response.groups:
            yield group.group_id, _read_group_state(group, kind)

    return BatchRequest(_DESCRIBED_AT_ONCE, request, read)


def _read_group_state(group: Any, kind: str) -> GroupState | GroupError:
    # Before version 6, a group that is missing or of another kind is described as Dead.
    gone = group.error_code == Code.GROUP_ID_NOT_FOUND
    if group.error_code and not gone:
        return GroupError(group.error_code)
    if gone or group.group_state == "Dead":
        return GroupState(group.group_id, "", "")
    read = _read_modern_member if kind == _CONSUMER else _read_classic_member
    members = tuple(read(group, member) for member in group.members)
    return GroupState(group.group_id, group.group_state, kind, members)


def _read_modern_member(_: Any, m: Any) -> Member:
    assigned = (*m.assignment.topic_partitions, *m.target_assignment.topic_partitions)
    topics = frozenset([*m.subscribed_topic_names, *(part.topic_name for part in assigned)])
    now = {part.topic_name: part.partitions for part in m.assignment.topic_partitions}
    named = make_member(m.client_id, m.client_host, m.instance_id or "", now)
    return Member(m.member_id, named, topics, m.subscribed_topic_regex or "")


def _read_classic_member(group: Any, m: Any) -> Member:
    """Return a member; brokers say what it reads only of a stable group of consumers."""
    topics = assigned = None
    if group.group_state == _STABLE and group.protocol_type == _CONSUMER:
        subscribed = read_subscription(bytes(m.member_metadata or b""))
        assigned = read_assignment(bytes(m.member_assignment or b""))
        if subscribed is not None and assigned is not None:
            topics = subscribed | assigned.keys()
    named = make_member(m.client_id, m.client_host, m.group_instance_id or "", assigned)
    return Member(m.member_id, named, topics)


def fetch_offsets(version: int, *, require_stable: bool) -> BatchRequest[FetchedOffsets]:
    """Return the request for all committed offsets of groups.

    Args:
        version: the highest version of OffsetFetch that the cluster supports.
        require_stable: report partitions with a pending transactional commit as unstable
            (KIP-447); not supported by brokers before 2.5.
    """

    def request(groups: Sequence[str]) -> OffsetFetchRequest:
        one = OffsetFetchRequest.OffsetFetchRequestGroup
        return OffsetFetchRequest(
            group_id=groups[0],
            topics=None,
            groups=[one(group_id=g, member_id=None, member_epoch=-1, topics=None) for g in groups],
            require_stable=require_stable and version >= 7,
            max_version=_NAMES_TOPICS,
        )

    def read(
        groups: Sequence[str], response: Any
    ) -> Iterator[tuple[str, FetchedOffsets | GroupError]]:
        if version < 8:
            yield groups[0], _read_fetched_offsets(response)
            return
        for group in response.groups:
            yield group.group_id, _read_fetched_offsets(group)

    return BatchRequest(_FETCHED_AT_ONCE if version >= 8 else 1, request, read)


def _read_fetched_offsets(group: Any) -> FetchedOffsets | GroupError:
    if group.error_code not in (Code.NONE, Code.GROUP_ID_NOT_FOUND):
        return GroupError(group.error_code)
    fetched = FetchedOffsets()
    for topic in group.topics:
        name = topic.name
        for part in topic.partitions:
            where, code = (name, part.partition_index), part.error_code
            if code == Code.UNSTABLE_OFFSET_COMMIT:
                fetched.unstable.append(where)
            elif code in PASSING:
                return GroupError(code)
            elif code:
                fetched.refused[where] = code
            elif part.committed_offset >= 0:
                fetched.offsets[where] = GroupCommit(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return fetched


# End of what is said about a write that may have been carried out although it failed.
OUTCOME_UNKNOWN = "whether the request took effect is unknown"
PartitionCodes = dict[TopicPartition, int]


def commit_offsets(
    commits: Mapping[str, Mapping[TopicPartition, GroupCommit]],
) -> BatchRequest[PartitionCodes]:
    """Return the request that commits offsets as a non-member, without a generation."""

    def request(groups: Sequence[str]) -> OffsetCommitRequest:
        topic, part = (
            OffsetCommitRequest.OffsetCommitRequestTopic,
            OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition,
        )
        offsets = commits[groups[0]]
        return OffsetCommitRequest(
            group_id=groups[0],
            generation_id_or_member_epoch=-1,
            member_id="",
            group_instance_id=None,
            retention_time_ms=-1,
            topics=[
                topic(
                    name=name,
                    partitions=[
                        part(
                            partition_index=where[1],
                            committed_offset=offsets[where].offset,
                            committed_leader_epoch=offsets[where].leader_epoch,
                            committed_metadata=offsets[where].metadata,
                        )
                        for where in wheres
                    ],
                )
                for name, wheres in _by_topic(offsets)
            ],
            max_version=_NAMES_TOPICS,
        )

    return BatchRequest(1, request, _read_codes, _COMMIT_LANES)


def delete_offsets(where: Mapping[str, Collection[TopicPartition]]) -> BatchRequest[PartitionCodes]:
    """Return the request that deletes committed offsets."""

    def request(groups: Sequence[str]) -> OffsetDeleteRequest:
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        part = topic.OffsetDeleteRequestPartition
        return OffsetDeleteRequest(
            group_id=groups[0],
            topics=[
                topic(name=name, partitions=[part(partition_index=p) for _, p in wheres])
                for name, wheres in _by_topic(where[groups[0]])
            ],
        )

    def read(
        groups: Sequence[str], response: Any
    ) -> Iterator[tuple[str, PartitionCodes | GroupError]]:
        if response.error_code == Code.GROUP_ID_NOT_FOUND:
            yield groups[0], dict.fromkeys(where[groups[0]], 0)
        elif response.error_code:
            yield groups[0], GroupError(response.error_code)
        else:
            yield from _read_codes(groups, response)

    return BatchRequest(1, request, read, _COMMIT_LANES)


def delete_groups() -> BatchRequest[bool]:
    """Return the request that deletes groups; True for those that are gone."""

    def request(groups: Sequence[str]) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=list(groups), max_version=2)

    def read(_: Sequence[str], response: Any) -> Iterator[tuple[str, bool | GroupError]]:
        for group in response.results:
            gone = group.error_code in (Code.NONE, Code.GROUP_ID_NOT_FOUND)
            yield group.group_id, gone or GroupError(group.error_code)

    return BatchRequest(_DELETED_AT_ONCE, request, read)


def join_groups(topics: Mapping[str, str], member: str) -> BatchRequest[bool]:
    """Return the request that joins consumer-protocol groups, each for one topic of it."""
    return _heartbeats(lambda group: _heartbeat(group, member, 0, topics[group]))


def leave_groups(member: str) -> BatchRequest[bool]:
    """Return the request that leaves them again."""
    return _heartbeats(lambda group: _heartbeat(group, member, -1), Code.UNKNOWN_MEMBER_ID)


def _heartbeat(
    group: str, member: str, epoch: int, topic: str = ""
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member,
        member_epoch=epoch,
        rebalance_timeout_ms=_REBALANCE_MS,
        subscribed_topic_names=[topic] if topic else None,
        topic_partitions=[] if topic else None,
    )


def _heartbeats(
    build: Callable[[str], ConsumerGroupHeartbeatRequest], passed: int = Code.NONE
) -> BatchRequest[bool]:
    def read(groups: Sequence[str], response: Any) -> Iterator[tuple[str, bool | GroupError]]:
        code = response.error_code
        yield groups[0], code in (Code.NONE, passed) or GroupError(code)

    return BatchRequest(1, lambda groups: build(groups[0]), read, _COMMIT_LANES)


def _read_codes(
    groups: Sequence[str], response: Any
) -> Iterator[tuple[str, PartitionCodes | GroupError]]:
    codes = {
        (topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }
    passing = next((code for code in codes.values() if code in PASSING), 0)
    # A write that timed out may still be in the log.
    doubtful = passing in (Code.COORDINATOR_NOT_AVAILABLE, Code.REQUEST_TIMED_OUT)
    yield groups[0], GroupError(passing, doubtful=doubtful) if passing else codes


def _by_topic(
    wheres: Iterable[TopicPartition],
) -> Iterator[tuple[str, Iterator[TopicPartition]]]:
    return groupby(sorted(wheres), key=lambda where: where[0])


_WORDS = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: "the {label} cluster has no such topic-partition",
    Code.OFFSET_METADATA_TOO_LARGE: "the commit's metadata is longer than the {label} brokers' "
    "offset.metadata.max.bytes",
    Code.INVALID_COMMIT_OFFSET_SIZE: "the commit is larger than the {label} brokers' "
    "message.max.bytes",
    Code.GROUP_SUBSCRIBED_TO_TOPIC: HAS_MEMBERS
    + " on the {label} that are subscribed to the topic",
    Code.INVALID_GROUP_ID: "the {label} cluster rejects the group's id",
    Code.GROUP_ID_NOT_FOUND: "the {label} cluster has no such group, or the group commits no "
    "offsets",
}


def describe_error(refusal: GroupError, label: str, right: str) -> str:
    """Return an operator message for a group error.

    Args:
        refusal: the error.
        label: ``source`` or ``target``.
        right: the ACL operation on the group that the request needs, such as ``Describe``.
    """
    words = refusal.reason or f"{_meaning(refusal.code, label, right)}: {code_name(refusal.code)}"
    return words + (f"; {OUTCOME_UNKNOWN}" if refusal.doubtful else "")


def _meaning(code: int, label: str, right: str) -> str:
    if code in GROUP_ACTIVE:
        return f"{HAS_MEMBERS} on the {label}"
    if code == Code.GROUP_AUTHORIZATION_FAILED:
        return f"the {label} principal lacks {right} on the group"
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        needed = "Describe" if right == "Describe" else "Read"
        return f"the {label} principal lacks {needed} on a topic of the group"
    if code in PASSING:
        why = ""
        if code == Code.COORDINATOR_NOT_AVAILABLE:
            why = ": __consumer_offsets has no leader, or too few brokers are there to create it"
        return f"the group's coordinator on the {label} is not available{why}"
    known = _WORDS.get(Code(code)) if code in set(Code) else None
    return (known or "the {label} cluster rejected the request").format(label=label)

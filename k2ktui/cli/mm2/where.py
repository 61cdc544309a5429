"""Options that select a MirrorMaker 2: by its file, or by Kafka Connect's REST API."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.config.mirror_files import is_resource_file
from k2ktui.errors import ConfigError

if TYPE_CHECKING:
    from k2ktui.mm2.offsets.positions_rest import RestPositions
    from k2ktui.mm2.offsets.positions_topic import TopicPositions

    Positions = RestPositions | TopicPositions

MIRROR_HELP = (
    "File of MirrorMaker 2: mm2.properties, a Strimzi resource or a connector's JSON; FILE#A->B "
    "selects one flow."
)

F = TypeVar("F", bound=Callable[..., Any])


def where_options(*file_names: str) -> Callable[[F], F]:
    """Add ``--connect``, ``--connect-file``, ``--connector``, and a file option by these names."""

    def add_options(function: F) -> F:
        for option in (
            click.option(
                "--connector", default="", metavar="NAME", help="Name of the MirrorSourceConnector."
            ),
            click.option(
                "--connect-file",
                default="",
                metavar="FILE",
                help="YAML file with url, user, password, tls and timeout.",
            ),
            click.option(
                "--connect",
                "url",
                default="",
                metavar="URL",
                help="URL of Kafka Connect's REST interface.",
            ),
            click.option(
                *file_names,
                default="",
                metavar="FILE",
                help=MIRROR_HELP,
            ),
        ):
            function = option(function)
        return function

    return add_options


def positions_of(*, mirror: str, url: str, connect_file: str, connector: str) -> Positions:
    """Return access to the positions of the MirrorMaker 2 that the options select.

    Raises:
        ConfigError: the options select none, or two.
        ConnectionFailed, TimedOut, K2kError: Connect is unreachable or reports an error.
    """
    file, _, name = mirror.partition("#")
    on_connect = bool(url or connect_file or connector)
    if mirror and on_connect and not is_resource_file(file):
        raise ConfigError(
            "give either mm2.properties (dedicated MirrorMaker 2) or --connect (MirrorMaker 2 on "
            "Kafka Connect)",
            unchanged="Nothing was changed.",
        )
    flow = None
    if not (mirror or on_connect):
        raise ConfigError(
            "which MirrorMaker 2 is meant is not given",
            unchanged="Nothing was changed.",
            hint="Give its file with -f (a takeover: --from), or Kafka Connect with --connect URL.",
        )
    if mirror:
        from k2ktui.mm2.flows.settings import load_settings
        from k2ktui.mm2.offsets.positions_topic import TopicPositions

        flow = load_settings(file).flow(name)
        if not (url or connect_file):
            if connector:
                raise ConfigError(
                    "--connector is given without --connect; the file already names its connector",
                    unchanged="Nothing was changed.",
                    hint="Give --connect URL, or FILE#NAME to select a connector of the file.",
                )
            return TopicPositions(flow)
    from k2ktui.mm2.flows.connect import Connect
    from k2ktui.mm2.flows.connect_settings import connect_settings
    from k2ktui.mm2.offsets.positions_rest import RestPositions

    if flow is not None and flow.connector is not None:
        connector = connector or flow.connector.name
    return RestPositions(Connect(connect_settings(url, connect_file)), connector, flow)

"""A flow of MirrorMaker 2 can be read and its groups moved; what needs a pipeline refuses it."""

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import ConfigError
from k2ktui.mm2.audit import Auditor
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.mirror_flow import PATH, MirrorFlow
from k2ktui.mm2.publish import MirrorNames, Publisher
from k2ktui.sync.flow import Flow
from k2ktui.watch.pipeline_reader import describe_pair

FILE = b"""
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:2
A->B.enabled = true
A->B.topics = orders
"""


@pytest.fixture
def mirror() -> MirrorFlow:
    return MirrorFlow.of(parse_settings(FILE, "mm2.properties", {}).flow(""))


def test_a_mirror_flow_is_no_pipeline(mirror: MirrorFlow) -> None:
    assert mirror.pipeline is None
    assert not isinstance(mirror, PipelineConfig)
    assert (mirror.path_of("t"), mirror.config.name) == (PATH, "A->B")
    assert mirror.config.topics.matches("orders")
    assert describe_pair(mirror).mirror
    assert "a:1" not in repr(mirror)


def test_a_pipeline_is_its_own_flow(mirror: MirrorFlow) -> None:
    flow = Flow(mirror.config)
    assert flow.pipeline is mirror.config
    assert flow.path_of("t") == "verbatim"
    assert flow.open_auditor() is None
    assert not describe_pair(flow).mirror


def test_each_refuses_what_only_the_other_has(mirror: MirrorFlow) -> None:
    with pytest.raises(ConfigError, match="needs a pipeline file"):
        Publisher(mirror, MirrorNames("A", "B", "."))
    with pytest.raises(ConfigError, match="needs a MirrorMaker 2 file"):
        Auditor(Flow(mirror.config))

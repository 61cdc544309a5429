"""``k2ktui mm2 import``: the pipeline takes what MirrorMaker 2 takes, and no secret is written."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.config.load import load
from k2ktui.errors import ConfigError
from k2ktui.mm2.pipeline import MirrorPipeline, load_mirror
from tests.support.cli import k2ktui, k2ktui_json

JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p";'
FILE = f"""
clusters = A, B
A.bootstrap.servers = a:9092
A.security.protocol = SASL_SSL
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = {JAAS}
B.bootstrap.servers = ${{env:B_SERVERS}}
config.providers = env
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
A->B.enabled = true
topics = orders.*, pay
topics.exclude = orders\\\\.tmp.*
groups.exclude = test-.*
replication.factor = 3
sync.group.offsets.interval.seconds = 10
tasks.max = 4
A.consumer.max.poll.records = 5
transforms = x
B.foo\\u001b = y
"""
TOPICS = ("orders", "orders.eu", "orders.tmp1", "pay", "pays", "B.pay", "C.B.pay", "__x", ".pay")
GROUPS = ("g", "test-1", "connect-x")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_the_pipeline_takes_what_the_flow_takes(file: Path, tmp_path: Path) -> None:
    """Topics, groups, names on the target; what is left out is told, escapes are not passed on."""
    output = tmp_path / "pipeline.yaml"
    done = k2ktui("mm2", "import", file, "-o", output)
    assert done.stdout == ""
    for words in ("tasks.max: not carried", "transforms: not", "A.consumer.max.poll.records: not"):
        assert words in done.stderr
    assert "B.foo\\x1b" in done.stderr and "sync.group" not in done.stderr
    text = output.read_text()
    assert output.stat().st_mode & 0o777 == 0o600
    assert 'password="p"' not in text + done.stderr and "${env:B_SERVERS}" in done.stderr
    env = {"SOURCE_SASL_JAAS_CONFIG": JAAS, "TARGET_BOOTSTRAP_SERVERS": "b:9092"}
    config = load([output], env=env).config
    flow = load_mirror_with(file, B_SERVERS="b:9092").flow
    for topic in TOPICS:
        assert config.topics.matches(topic) is flow.replicates(topic), topic
    for group in GROUPS:
        assert config.consumer_groups.matches(group) is flow.groups.matches(group), group
    assert config.topic_mapping.target_for("pay") == flow.target_topic("pay") == "A.pay"
    assert config.groups.poll_interval_s == 10
    assert config.source.common["sasl.jaas.config"] == JAAS
    assert config.target.bootstrap_servers == "b:9092"
    assert "exists" in k2ktui("mm2", "import", file, "-o", output, code=5).stderr


def load_mirror_with(file: Path, **env: str) -> MirrorPipeline:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return load_mirror(str(file))[0]


def test_json_and_several_flows(file: Path) -> None:
    """One object on stdout; a flow is named behind ``#``."""
    done = k2ktui_json("mm2", "import", file)
    assert done["pipeline"].startswith("# Made by")
    file.write_text(FILE + "B->A.enabled = true\n")
    both = k2ktui("mm2", "import", file, code=2)
    assert "enables A->B, B->A" in both.stderr
    one = k2ktui("mm2", "import", f"{file}#B->A")
    assert "prefix: B." in one.stdout


def test_it_is_no_pipeline_to_start(file: Path) -> None:
    """Commands that copy say what to do instead; errors have their place in the file."""
    assert "mm2 import" in k2ktui("start", "-f", file, code=2).stderr
    assert "mm2 import" in k2ktui("config", "validate", "-f", file, code=2).stderr
    with pytest.raises(ConfigError, match=r"mm2.properties:7: B.bootstrap.servers"):
        load_mirror(str(file))

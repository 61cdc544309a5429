"""``k2ktui mm2 import``: the pipeline takes what MirrorMaker 2 takes, and no secret is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.settings import load_settings, parse_settings
from k2ktui.mm2.importing.pipeline_file import import_flow, topic_pattern
from k2ktui.mm2.mirror_flow import MirrorFlow, load_mirror
from tests.support.commands.cli import k2ktui, k2ktui_json

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
FLAGS = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
_CLASS = "replication.policy.class"
TOPICS = ("orders", "orders.eu", "orders.tmp1", "pay", "pays", "B.pay", "C.B.pay", "__x", ".pay")
GROUPS = ("g", "test-1", "connect-x")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_the_pipeline_takes_what_the_flow_takes(file: Path, tmp_path: Path) -> None:
    """Topics, groups, names on the target; what is left out is noted, escapes are not passed on."""
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
    flow = load_mirror_with(file, B_SERVERS="b:9092").properties
    for topic in TOPICS:
        assert config.topics.matches(topic) is flow.replicates(topic), topic
    for group in GROUPS:
        assert config.consumer_groups.matches(group) is flow.groups.matches(group), group
    assert config.topic_mapping.target_for("pay") == flow.target_topic("pay") == "A.pay"
    assert config.groups.poll_interval_s == 10
    assert config.source.kafka.common["sasl.jaas.config"] == JAAS
    assert config.target.bootstrap_servers == "b:9092"
    assert "exists" in k2ktui("mm2", "import", file, "-o", output, code=5).stderr


def load_mirror_with(file: Path, **env: str) -> MirrorFlow:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in env.items():
            patch.setenv(name, value)
        return load_mirror(str(file))[0]


@given(
    name=st.text("abx.-", min_size=1, max_size=6).filter(lambda name: name[-1] not in ".-"),
    alias=st.sampled_from(["", "a", "ab", "a.b"]),
    separator=st.sampled_from([None, "", ".", "-"]),
    policy=st.sampled_from(["Default", "Identity"]),
)
def test_cycles_are_left_out_as_mirror_maker_does(
    name: str, alias: str, separator: str | None, policy: str
) -> None:
    """Whatever the target's alias and the separator are, also blank ones."""
    lines = [FLAGS, f"target.cluster.alias = {alias}", f"{_CLASS} = {policy}ReplicationPolicy"]
    if separator is not None:
        lines.append(f"replication.policy.separator = {separator}")
    flow = parse_settings("\n".join(lines).encode(), "mm2.properties", {}).flow()
    taken = compile_pattern(topic_pattern(flow)).fullmatch(name) is not None
    assert taken is flow.replicates(name)


def test_json_and_several_flows(file: Path) -> None:
    """One object on stdout; a flow is named behind ``#``."""
    done = k2ktui_json("mm2", "import", file)
    assert done["text"].startswith("# Made by")
    file.write_text(FILE + "B->A.enabled = true\n")
    both = k2ktui("mm2", "import", file, code=2)
    assert "enables A->B, B->A" in both.stderr
    one = k2ktui("mm2", "import", f"{file}#B->A")
    assert "prefix: B." in one.stdout


@pytest.mark.parametrize(
    ("lines", "taken"),
    [
        ("emit.checkpoints.interval.seconds = 5", 5.0),
        ("emit.checkpoints.interval.seconds = 5\nsync.group.offsets.interval.seconds = 30", 5.0),
        ("emit.checkpoints.interval.seconds = 30\nsync.group.offsets.interval.seconds = 9", 9.0),
        ("emit.checkpoints.interval.seconds = -1", 60.0),
        ("", 60.0),
    ],
)
def test_the_interval_of_checkpoints(lines: str, taken: float, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FLAGS + lines)
    done = import_flow(load_settings(str(file), filled=False).flow(""))
    output = tmp_path / "pipeline.yaml"
    output.write_text(done.text)
    assert load([output]).config.groups.poll_interval_s == taken
    assert not any("groups.pollInterval is its counterpart" in note for note in done.notes)


CONNECTOR = {
    "name": "mirror",
    "config": {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": "a:1",
        "target.cluster.bootstrap.servers": "b:1",
        "producer.override.security.protocol": "SASL_SSL",
        "producer.override.sasl.mechanism": "PLAIN",
        "producer.override.sasl.jaas.config": JAAS,
        "producer.override.compression.type": "zstd",
        "consumer.override.fetch.min.bytes": "9",
    },
}


def test_overrides_of_a_connector_are_carried_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, output = tmp_path / "c.json", tmp_path / "pipeline.yaml"
    file.write_text(json.dumps(CONNECTOR))
    done = import_flow(load_settings(str(file), filled=False).flow(""))
    assert "override" not in "".join(done.notes) and "unknown" not in "".join(done.notes)
    assert "pass" not in done.text
    output.write_text(done.text)
    monkeypatch.setenv("TARGET_PRODUCER_SASL_JAAS_CONFIG", JAAS)
    config = load([output]).config
    assert config.target.properties("producer")["compression.type"] == "zstd"
    assert config.target.properties("producer")["sasl.jaas.config"] == JAAS
    assert config.target.properties("producer")["sasl.mechanism"] == "PLAIN"
    assert config.source.properties("consumer")["fetch.min.bytes"] == "9"


def test_the_file_is_an_argument_or_an_option(file: Path) -> None:
    shown = k2ktui("mm2", "import", file).stdout
    assert k2ktui("mm2", "import", "-f", file).stdout == shown
    both = k2ktui("mm2", "import", file, "-f", file, code=2)
    assert "give one file of MirrorMaker 2, not two" in both.stderr
    assert "give one file of MirrorMaker 2" in k2ktui("mm2", "import", code=2).stderr


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (
            "mm.yaml",
            "kind: KafkaMirrorMaker2\nspec: {mirrors: []}\n",
            "metadata.name: missing; kubectl get -o yaml prints the whole resource",
        ),
        (
            "mm.yaml",
            "spec: {mirrors: []}\n",
            "kind: missing beside spec; it is KafkaMirrorMaker2 or KafkaConnector",
        ),
        (
            "mm.yaml",
            "1 kind: KafkaMirrorMaker2\n2 spec:\n3   mirrors: []\n",
            "without line numbers",
        ),
        (
            "mm2.properties",
            "  1\tclusters = A, B\n  2\ta = b\n",
            "copy the file without line numbers",
        ),
    ],
)
def test_what_a_copied_part_lacks_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / name
    file.write_text(text)
    assert said in k2ktui("mm2", "import", file, code=2).stderr


def test_a_file_without_a_source_connector_has_its_own_advice(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    kind = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
    config = {**CONNECTOR["config"], "connector.class": kind}  # type: ignore[dict-item]
    file.write_text(json.dumps({"name": "c", "config": config}))
    said = k2ktui("mm2", "import", file, code=2).stderr
    assert "Add the MirrorSourceConnector" in said and "enabled = true" not in said


def test_positions_without_a_connector_say_what_is_missing() -> None:
    where = ("--strimzi", "kafkaconnector/x")
    said = k2ktui("mm2", "offsets", "set", *where, "orders:0:1", code=2).stderr
    assert "the alias of the source cluster is not known: no connector is named" in said


@pytest.mark.parametrize(("seconds", "taken"), [("0", 0.5), ("7200", 3600.0), ("60", 60.0)])
def test_an_interval_out_of_range_is_replaced(seconds: str, taken: float, tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(f"{FLAGS}sync.group.offsets.interval.seconds = {seconds}\n")
    done = import_flow(load_settings(str(file), filled=False).flow(""))
    output = tmp_path / "pipeline.yaml"
    output.write_text(done.text)
    assert load([output]).config.groups.poll_interval_s == taken
    noted = [note for note in done.notes if "groups.pollInterval is" in note]
    assert len(noted) == (taken != float(seconds))


@pytest.mark.parametrize(
    ("topics", "exclude"),
    [
        ("(?i)orders.*, pay", "none"),
        ("(?i)orders.*, pay", "(?i)orders-TMP.*, __.*"),
        ("(?is)orders.*", "orders-tmp"),
        ("(?i:orders.*), pay", ""),
        ("orders.*, pay", "(?i)orders-TMP.*, PAY"),
    ],
)
def test_flags_within_the_filters(tmp_path: Path, topics: str, exclude: str) -> None:
    """Java takes them anywhere; they apply to all that follows in the list."""
    flow, config = flags(tmp_path, f"topics = {topics}\ntopics.exclude = {exclude}\n")
    names = ("orders", "ORDERS", "Orders-tmp1", "orders-tmp", "pay", "Pay", "PAY", "__x", "other")
    for name in names:
        assert config.topics.matches(name) is flow.replicates(name), name


def test_flags_within_the_group_filters(tmp_path: Path) -> None:
    flow, config = flags(tmp_path, "groups = (?i)app.*\ngroups.exclude = (?i)APP-x, test\n")
    for group in ("app", "APP", "app-x", "App-X", "TEST"):
        assert config.consumer_groups.matches(group) is flow.groups.matches(group), group
    assert config.consumer_groups.matches("APP") and not config.consumer_groups.matches("App-X")


def flags(tmp_path: Path, lines: str) -> tuple[FlowProperties, PipelineConfig]:
    path = tmp_path / "mm2.properties"
    path.write_text(FLAGS + lines)
    flow = load_mirror(str(path))[0]
    written = tmp_path / "pipeline.yaml"
    written.write_text(import_flow(flow.properties).text)
    assert load([written], env={}).config.topics == flow.config.topics
    return flow.properties, flow.config


@pytest.mark.parametrize("topics", ["(?P<a>x)", "(?x)orders #"])
def test_a_filter_that_cannot_stand_within_another(tmp_path: Path, topics: str) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(f"{FLAGS}topics = {topics}\ntopics.exclude = (?P<a>y)\n")
    with pytest.raises(ConfigError, match=r"A->B of .* cannot be expressed as a pipeline") as error:
        load_mirror(str(path))
    assert "expected a valid regular expression" in error.value.message
    assert "(?i:orders.*)" in error.value.hint


@pytest.mark.parametrize(
    ("topics", "exclude", "taken"),
    [
        (r"(a|b)\\1", "", ["aa", "bb"]),
        (r"(x), (a|b)\\2.*", "__.*", ["aa", "aac", "bb", "x"]),
        (r"(a|b)\\1.*", r"(a)(b), (b)\\3c", ["aa", "aac", "bb"]),
        (r"(?<n>a|b)\\1[\\]c]*|\\Q\\1\\E", "(?i)AA", ["aac", "bb", "\\1"]),
        ("a.*, b.*", r"(a)(b)?\\1.*, (b)\\3", ["ab"]),
    ],
)
def test_numbered_references_are_to_the_same_groups(
    tmp_path: Path, topics: str, exclude: str, taken: list[str]
) -> None:
    """MirrorMaker 2 joins each list, so that its groups are numbered through."""
    flow, config = flags(tmp_path, f"topics = {topics}\ntopics.exclude = {exclude}\n")
    names = ("aa", "aac", "ab", "bb", "x", "\\1")
    assert [name for name in names if flow.topics.matches(name)] == taken
    for name in names:
        assert config.topics.matches(name) is (name in taken), name


def test_a_reference_that_java_reads_in_two_ways_is_refused(tmp_path: Path) -> None:
    path, output = tmp_path / "mm2.properties", tmp_path / "pipeline.yaml"
    path.write_text(FLAGS + r"topics = (a)\\11" + "\n")
    reported = k2ktui("mm2", "import", path, "-o", output, code=2).stderr
    assert "mm2.properties:6: topics: expected a regular expression without references" in reported
    assert not output.exists()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("topics = (?<x>a)\ntopics.exclude = (?<x>b)\n", "topics: expected a valid regular"),
        ("groups = (?<x>a)\ngroups.exclude = (?<x>b)\n", "groups: expected a valid regular"),
        ("B->A.topics = (\n", "mm2.properties:6: topics: expected a valid regular"),
        ("B->A.group.filter.class = com.x.Own\n", "Own is not supported"),
    ],
)
def test_nothing_is_written_if_a_filter_is_refused(tmp_path: Path, lines: str, words: str) -> None:
    """Whichever flow is named, copying or not."""
    path, output = tmp_path / "mm2.properties", tmp_path / "pipeline.yaml"
    path.write_text(FLAGS + lines)
    flow = "B->A" if lines.startswith("B->A") else "A->B"
    reported = k2ktui("mm2", "import", f"{path}#{flow}", "-o", output, code=2)
    assert words in reported.stderr and reported.stdout == ""
    assert not output.exists()


def test_excluded_settings_that_are_not_carried_over_are_reported(file: Path) -> None:
    file.write_text(FILE + "config.properties.exclude = retention\\\\..*, segment.bytes\n")
    done = k2ktui("mm2", "import", file)
    assert "- segment.bytes" in done.stdout
    assert r"exclude: retention\..* is in parity.topicConfigs.exclude only" in done.stderr


def test_it_is_no_pipeline_to_start(file: Path) -> None:
    """Commands that copy say what to do instead; errors have their place in the file."""
    assert "mm2 import" in k2ktui("start", "-f", file, code=2).stderr
    assert "mm2 import" in k2ktui("config", "validate", "-f", file, code=2).stderr
    with pytest.raises(ConfigError, match=r"mm2.properties:7: B.bootstrap.servers"):
        load_mirror(str(file))

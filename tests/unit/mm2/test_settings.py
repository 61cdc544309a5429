"""``mm2.properties`` read as MirrorMaker 2 reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k2ktui.config.javaprops import parse
from k2ktui.config.problems import Problem
from k2ktui.errors import ConfigError
from k2ktui.mm2.flows.model import FlowProperties
from k2ktui.mm2.flows.providers import fill_variables
from k2ktui.mm2.flows.settings import MirrorSettings, connector_flow, load_settings, parse_settings

PLAIN = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""


def read(text: str, **env: str) -> MirrorSettings:
    return parse_settings(text.encode("latin-1"), "mm2.properties", env)


def flow(text: str = "", **env: str) -> FlowProperties:
    return read(PLAIN + text, **env).flow()


def test_java_properties_syntax() -> None:
    """Comments, continued lines, escapes, all separators, the last of two."""
    raw = (
        b"# c\n! d\n\n a.b = 1 \nc:2\nd 3\ne\\ f=x\\\n   y\\u0041\nempty\nre = a\\\\.b\n"
        b"A->B.x=\\t\\\\\na.b = 4\r\nlast=\\"
    )
    values = {key: setting.value for key, setting in parse(raw, "f").items()}
    assert values == {
        "a.b": "4",
        "c": "2",
        "d": "3",
        "e f": "xyA",
        "empty": "",
        "re": "a\\.b",
        "A->B.x": "\t\\",
        "last": "",
    }
    assert parse(raw, "f")["c"].mark.line == 5


def test_defaults_of_a_flow() -> None:
    """Names of topics and filters as in Kafka 4."""
    defaults = flow()
    assert str(defaults) == "A->B"
    assert defaults.offset_syncs_topic == "mm2-offset-syncs.B.internal"
    assert defaults.offset_syncs_side == "source"
    assert defaults.checkpoints_topic == "A.checkpoints.internal"
    assert defaults.heartbeats_topic == "A.heartbeats"
    assert defaults.connect_offsets_topic == "mm2-offsets.A.internal"
    assert defaults.worker_group == "A-mm2"
    assert not defaults.syncs_groups and not defaults.exactly_once
    assert defaults.target_topic("t") == "A.t"
    assert defaults.cluster("source").bootstrap_servers == "a:9092"
    assert defaults.cluster("target").bootstrap_servers == "b:9092"


@pytest.mark.parametrize(
    ("topic", "taken"),
    [
        ("orders", True),
        ("heartbeats", True),
        ("B.heartbeats", False),
        ("C.heartbeats", True),
        ("B.orders", False),
        ("C.B.orders", False),
        ("C.orders", True),
        ("__consumer_offsets", False),
        (".hidden", False),
        ("mm2-offset-syncs.B.internal", False),
        ("A.checkpoints.internal", False),
        ("x.replica", False),
        ("own.internal", True),
    ],
)
def test_which_topics_are_copied(topic: str, taken: bool) -> None:
    """Cycles, internal topics and the default excludes."""
    assert flow().replicates(topic) is taken


def test_filters() -> None:
    """Lists of expressions; the flow's own before the common one; excludes win."""
    filtered = flow("topics = x\nA->B.topics = a.*, b\\\\..*\nA->B.topics.exclude = a1|a2\n")
    assert [n for n in ("a", "a1", "a2", "b.c", "b", "x") if filtered.replicates(n)] == ["a", "b.c"]
    # Without the heartbeats, which are copied whatever the filter says.
    assert filtered.replicates("heartbeats")
    assert not flow("topics = a\nheartbeats.replication.enabled = false").replicates("heartbeats")
    assert filtered.groups.matches("g") and not filtered.groups.matches("connect-x")
    only = flow("groups = g[0-9]+\ngroups.exclude = g7\n").groups
    assert only.matches("g12") and not only.matches("g7") and not only.matches("x")


def test_identity_policy_and_separators() -> None:
    """Names that are kept; separators, also of internal topics."""
    renamed = flow(
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    assert renamed.target_topic("t.u") == "t.u"
    assert renamed.target_topic("heartbeats") == "A.heartbeats"
    assert renamed.replicates("B.t")
    other = flow("replication.policy.separator = _\n")
    assert other.target_topic("t") == "A_t"
    assert other.checkpoints_topic == "A_checkpoints_internal"
    assert other.offset_syncs_topic == "mm2-offset-syncs_B_internal"
    assert other.target_topic("B_t") == "t"
    old = flow(
        "replication.policy.separator = _\n"
        "replication.policy.internal.topic.separator.enabled = false\n"
    )
    assert old.checkpoints_topic == "A.checkpoints.internal"


POLICIES = "org.apache.kafka.connect.mirror"
BLANK = "A->B.source.cluster.alias =\nA->B.replication.policy.separator =\n"


@pytest.mark.parametrize(
    ("text", "copy", "syncs", "checkpoints", "sink"),
    [
        ("source.cluster.alias = dc1\n", "dc1.t", "B.internal", "dc1.checkpoints.internal", "dc1."),
        ("A.alias = dc1\n", "dc1.t", "B.internal", "dc1.checkpoints.internal", "dc1."),
        ("B.alias = dc2\n", "A.t", "dc2.internal", "A.checkpoints.internal", "A."),
        (
            "source.cluster.alias = x\nA.alias = y\nA->B.source.cluster.alias = z\n",
            *("z.t", "B.internal", "z.checkpoints.internal", "z."),
        ),
        (
            "source.cluster.alias = x\nA.alias = y\n",
            "y.t",
            "B.internal",
            "y.checkpoints.internal",
            "y.",
        ),
        (BLANK, "t", "Binternal", "checkpointsinternal", ""),
        (f"{BLANK}A->B.target.cluster.alias =\n", "t", "internal", "checkpointsinternal", ""),
        ("replication.policy.separator =\n", "At", "Binternal", "Acheckpointsinternal", "A"),
        ("source.cluster.alias =\n", ".t", "B.internal", ".checkpoints.internal", "."),
        (
            f"{BLANK}replication.policy.internal.topic.separator.enabled = false\n",
            *("t", "B.internal", ".checkpoints.internal", ""),
        ),
        (
            f"replication.policy.separator =\nreplication.policy.class = "
            f"{POLICIES}.IdentityReplicationPolicy\n",
            *("t", "Binternal", "Acheckpointsinternal", ""),
        ),
    ],
)
def test_alias_and_separator(text: str, copy: str, syncs: str, checkpoints: str, sink: str) -> None:
    """The flow's before the cluster's before the common; a blank is a value."""
    made = flow(text)
    assert str(made) == "A->B" and made.worker_group == "A-mm2"
    assert made.target_topic("t") == copy and made.policy.source_topic(copy) == "t"
    dot = "." if syncs.endswith(".internal") else ""
    assert made.offset_syncs_topic == f"mm2-offset-syncs{dot}{syncs}"
    assert made.checkpoints_topic == checkpoints
    assert made.policy.prefix == sink
    assert made.replicates("orders") and made.connect_offsets_topic == "mm2-offsets.A.internal"


def test_a_blank_separator_splits_names_into_characters() -> None:
    """As Java does: only an alias of one character can be the origin of a topic."""
    assert not flow("replication.policy.separator =\n").replicates("aBc")
    assert flow("replication.policy.separator =\n").replicates("acB")
    other = "replication.policy.separator =\ntarget.cluster.alias = Bc\n"
    assert flow(other).replicates("aBcd")


@pytest.mark.parametrize("alias", ["", "dc1"])
def test_connectors_whose_aliases_are_blank_or_the_same(alias: str) -> None:
    config = {
        "name": "mirror",
        "connector.class": f"{POLICIES}.MirrorSourceConnector",
        "source.cluster.alias": alias,
        "target.cluster.alias": alias,
        "source.cluster.bootstrap.servers": "a:9092",
        "target.cluster.bootstrap.servers": "b:9092",
        "replication.policy.separator": "",
    }
    file = parse_settings(json.dumps(config).encode(), "mirror.json", {}).flow()
    for made in (file, connector_flow(config, "offsets")):
        assert str(made) == "source->target"
        assert (made.source_alias, made.target_alias) == (alias, alias)
        assert made.target_topic("orders") == f"{alias}orders"


def test_offset_syncs_on_the_target() -> None:
    """The name has the alias of the other cluster."""
    made = flow("offset-syncs.topic.location = target\n")
    assert (made.offset_syncs_side, made.offset_syncs_topic) == (
        "target",
        "mm2-offset-syncs.A.internal",
    )


def test_client_properties_by_precedence() -> None:
    """The flow's before the cluster's before the common; tuning stays with MirrorMaker 2."""
    made = flow(
        "security.protocol = SASL_SSL\n"
        "B.security.protocol = PLAINTEXT\n"
        "sasl.mechanism = PLAIN\n"
        "A.sasl.jaas.config = very secret;\n"
        "A->B.source.cluster.sasl.mechanism = SCRAM-SHA-256\n"
        "A.consumer.max.poll.records = 5\n"
        "A.consumer.isolation.level = read_committed\n"
        "B.exactly.once.source.support = enabled\n"
        "A->B.source.admin.ssl.truststore.type = PEM\n"
    )
    source, target = made.cluster("source"), made.cluster("target")
    assert source.properties("consumer") == {
        "bootstrap.servers": "a:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": "very secret;",
    }
    assert source.properties("admin")["ssl.truststore.type"] == "PEM"
    assert target.kafka.common["security.protocol"] == "PLAINTEXT"
    assert made.exactly_once
    assert "very secret" not in repr(made)


def test_config_providers(tmp_path: Path) -> None:
    """Secrets from files, directories and the environment, as Kafka's own providers do it."""
    (tmp_path / "s.properties").write_text("k = from file\n")
    (tmp_path / "one").write_text("from directory")
    kinds = "org.apache.kafka.common.config.provider"
    head = (
        "config.providers = f, d, e\n"
        f"config.providers.f.class = {kinds}.FileConfigProvider\n"
        f"config.providers.d.class = {kinds}.DirectoryConfigProvider\n"
        f"config.providers.e.class = {kinds}.EnvVarConfigProvider\n"
    )
    made = flow(
        f"{head}"
        f"A.sasl.jaas.config = ${{f:{tmp_path}/s.properties:k}}, ${{d:{tmp_path}:one}}, ${{e:V}}\n"
        "B.sasl.jaas.config = ${unknown:x}\n",
        V="from env",
    )
    assert made.cluster("source").kafka.common["sasl.jaas.config"] == (
        "from file, from directory, from env"
    )
    assert made.cluster("target").kafka.common["sasl.jaas.config"] == "${unknown:x}"
    with pytest.raises(ConfigError, match=r"mm2.properties:10: A.ssl.key.password: .*not set"):
        flow(f"{head}A.ssl.key.password = ${{e:NOT}}\n")
    with pytest.raises(ConfigError, match="other providers are not supported"):
        flow("config.providers = v\nconfig.providers.v.class = com.vault.VaultProvider\n")
    text = f"{head}A.ssl.key.password = ${{e:NOT}}\nA.bootstrap.servers = ${{e:NOT}}\n"
    with pytest.raises(ConfigError, match="has 2 errors"):
        flow(text)
    problems: list[Problem] = []
    filled = fill_variables(parse(text.encode(), "f"), {}, problems)
    assert filled["A.bootstrap.servers"].value == "${e:NOT}" and len(problems) == 2
    limited = f"{head}config.providers.f.param.allowed.paths = /usr\n"
    with pytest.raises(ConfigError, match=r"A.ssl.key.password: .*allowed.paths of this provider"):
        flow(f"{limited}A.ssl.key.password = ${{f:{tmp_path}/s.properties:k}}\n")
    with pytest.raises(ConfigError, match="expected the name of a file in the directory"):
        flow(f"{head}A.ssl.key.password = ${{d:{tmp_path}/x:../one}}\n")
    with pytest.raises(ConfigError, match=r"mm2.properties:10: A.config.providers: not supported"):
        flow(f"{head}A.config.providers = f\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "clusters: missing"),
        ("clusters = A, B\nA->B.enabled = true\n", "A.bootstrap.servers: missing"),
        (PLAIN + "topics = (\n", "mm2.properties:6: topics: expected a valid regular"),
        (PLAIN + "replication.policy.class = com.x.Own\n", "Own are unknown"),
        (PLAIN + "topic.filter.class = com.x.Own\n", "Own is not supported"),
    ],
)
def test_errors_have_places(text: str, words: str) -> None:
    """All that is wrong with a file is said with the line."""
    with pytest.raises(ConfigError, match=words.replace("(", r"\(")):
        read(text)


def test_choice_of_a_flow() -> None:
    """One that copies is taken by itself; of several one must be named."""
    both = PLAIN + "B->A.enabled = TRUE\n"
    assert str(read(both).flow("B->A")) == "B->A"
    with pytest.raises(ConfigError, match="enables A->B, B->A"):
        read(both).flow()
    with pytest.raises(ConfigError, match="no flow A->C"):
        read(both).flow("A->C")
    with pytest.raises(ConfigError, match="enables no flow"):
        read(PLAIN.replace("true", "false")).flow()
    assert str(read(PLAIN.replace("A->B.enabled", "enabled") + "B->A.enabled=false").flow("A->B"))


def test_hostile_aliases(tmp_path: Path) -> None:
    """Aliases with escapes reach no terminal as they are; unused pairs are reported."""
    settings = read(PLAIN + "A->\\u001b[31m.enabled = true\nX->B.topics = y\n")
    assert len(settings.notes) == 2 and "\x1b" not in "".join(settings.notes)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "none.properties")


def test_connector_configuration() -> None:
    """What Connect's REST interface shows of a connector is a flow as well."""
    made = connector_flow(
        {
            "name": "mirror",
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            "source.cluster.bootstrap.servers": "a:9092",
            "target.cluster.bootstrap.servers": "b:9092",
            "topics": "t.*",
        },
        "connect-offsets",
    )
    assert str(made) == "A->B" and made.connect_offsets_topic == "connect-offsets"
    assert made.cluster("source").bootstrap_servers == "a:9092"
    assert made.replicates("t1") and not made.replicates("u")


CLUSTERS = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"


@pytest.mark.parametrize(
    ("lines", "advice"),
    [
        ("", "Set A->B.enabled = true, with your aliases."),
        ("A->B.enabled = yes", "m.properties:4: A->B.enabled is yes; set it to true"),
        ("A->B.enabled = true # on", "A->B.enabled is true # on; set it to true"),
        ("a->B.enabled = true", "m.properties:4: a->B.enabled is no flow between clusters: A, B"),
        ("A -> B.enabled = true", "write the flow without blanks, as A->B.enabled"),
        ("A->B.emit.heartbeats.enabled = true", "Set A->B.enabled = true, with your aliases."),
    ],
)
def test_advice_for_a_file_that_enables_no_flow_fits_it(lines: str, advice: str) -> None:
    settings = parse_settings(f"{CLUSTERS}{lines}\n".encode(), "m.properties", {})
    with pytest.raises(ConfigError) as error:
        settings.flow()
    assert advice in error.value.hint
    assert not lines.endswith("true # on") or "Set A->B" not in error.value.hint


def test_a_connector_that_is_switched_off_is_there() -> None:
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "enabled": "false",
        **{f"{side}.cluster.alias": side for side in ("source", "target")},
        **{f"{side}.cluster.bootstrap.servers": "a:1" for side in ("source", "target")},
    }
    raw = json.dumps({"name": "mm", "config": config}).encode()
    with pytest.raises(ConfigError) as error:
        parse_settings(raw, "mm.json", {}).flow()
    assert error.value.hint == "mm.json:1: source->target.enabled is false; set it to true"
    text = "\n".join(f"{key}={value}" for key, value in config.items())
    with pytest.raises(ConfigError) as error:
        parse_settings(text.encode(), "mm.properties", {})
    assert "This is a connector: write it as JSON" in error.value.message

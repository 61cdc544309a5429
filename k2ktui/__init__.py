"""k2ktui: exactly-once replication and offset translation between pairs of Kafka clusters."""

__version__ = "0.1.0"

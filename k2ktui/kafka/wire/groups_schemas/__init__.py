"""Schemas of requests that kafka-python lacks, from Apache Kafka 4.3's message definitions."""

"""Partition logs at byte level: decode, rebuild, fetch and compare batches; no Spark."""

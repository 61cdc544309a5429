"""Metrics of a run and their export with OpenTelemetry."""

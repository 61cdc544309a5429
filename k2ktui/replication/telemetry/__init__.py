"""Metrics of a run, and where OpenTelemetry sends them."""

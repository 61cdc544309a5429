"""Requests to brokers over kafka-python's connections, and their encoding."""

"""Parity: what differs between two clusters besides records and groups, and what to do; pure."""

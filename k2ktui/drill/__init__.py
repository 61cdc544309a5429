"""Guided failover drills: rehearsed, carried out, proven, and back again."""

"""Parity: topic settings, client quotas and ACLs of both clusters are compared and kept in step.

What differs and what is done is decided in :mod:`k2ktui.engine.parity`. ``topic_configs``,
``quotas`` and ``acls`` read and write one kind of values each; ``parts`` lists them.
"""

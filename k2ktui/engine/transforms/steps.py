"""The steps of a transform that may fail, as the file spells them."""

from __future__ import annotations

from k2ktui.engine.transforms.model import Routing, Transform


def plan_steps(transform: Transform) -> tuple[str, ...]:
    """Return the steps of a transform that may fail, as the file spells them."""
    steps = []
    for part, how in (("key", transform.decode_key), ("value", transform.decode_value)):
        if how.kind != "bytes":
            steps.append(f"decode.{part}")
    sql = transform.is_sql
    if transform.filter:
        steps.append("sql WHERE" if sql else "filter")
    if transform.explode is not None:
        steps.append(f"{'sql' if sql else 'explode'} {transform.explode[0]}")
    steps += [f"{'sql' if sql else 'set'} {path}" for path, _ in transform.assignments]
    routing = transform.routing or Routing()
    routes = (("topic", routing.topic), ("partition", routing.partition))
    steps += [f"sink.{what}" for what, text in routes if text]
    for part, kind in (("key", transform.encode_key), ("value", transform.encode_value)):
        if kind != "bytes":
            steps.append(f"encode.{part}")
    return tuple(steps)

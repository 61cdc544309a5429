"""k2ktui: exactly-once replication and offset translation between pairs of Kafka clusters."""

import logging

__version__ = "0.1.0"

# Without a handler, Python prints warnings on stderr: of workers, and where k2ktui is a library.
logging.getLogger(__name__).addHandler(logging.NullHandler())

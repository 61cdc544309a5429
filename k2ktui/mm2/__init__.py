"""MirrorMaker 2 and Kafka Connect: reading and correcting their state, and taking over."""

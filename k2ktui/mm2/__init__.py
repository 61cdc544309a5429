"""MirrorMaker 2 and Kafka Connect: read, corrected and taken over from."""

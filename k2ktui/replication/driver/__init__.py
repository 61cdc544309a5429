"""The driver: laps of all slots, recovery, heartbeats."""

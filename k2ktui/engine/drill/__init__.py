"""The model of failover drills, as their records on the target have it; pure."""

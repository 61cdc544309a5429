"""What ``replication.transform`` does to records, as plain values; pure."""

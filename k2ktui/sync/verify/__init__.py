"""Content verification: the next records of groups compared on both clusters."""

"""What it takes to prove a replica: outcomes, parts, and the walk over both logs of a part."""

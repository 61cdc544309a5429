"""Records around a position on both clusters: listed, compared, and shown as readable text."""

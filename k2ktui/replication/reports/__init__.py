"""What a running pipeline reports: events, progress and problems."""

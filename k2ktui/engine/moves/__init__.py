"""What happens to consumer groups' offsets: status, plan, apply, journal, undo; pure."""

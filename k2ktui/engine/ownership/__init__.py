"""Which run owns which slot, and when another takes over; pure, without a clock."""

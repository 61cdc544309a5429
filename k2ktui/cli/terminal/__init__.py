"""What commands share at a terminal: options, tables, confirmations, output."""

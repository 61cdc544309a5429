"""Which run may write: fencing by producer epochs, and slots that runs share."""

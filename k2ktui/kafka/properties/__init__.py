"""Java client properties, as both client libraries take them."""

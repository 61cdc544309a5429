"""Where every record landed: mapping ranges, and translation by them; pure."""

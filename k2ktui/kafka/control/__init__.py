"""A pipeline's own topics on the target: made, inspected, read and written."""

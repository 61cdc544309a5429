"""Schema registries: their clients, their content, and the mapping of schema ids between two."""

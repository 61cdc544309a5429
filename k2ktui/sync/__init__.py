"""Connect the pure engine with the clusters: state, positions and groups of a pipeline."""

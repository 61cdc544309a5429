"""Source and target topics: which are copied, under which names, and their creation."""

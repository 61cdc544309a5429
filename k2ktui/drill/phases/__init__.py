"""The phases of drills, one function each: they look first, act, and can be repeated."""

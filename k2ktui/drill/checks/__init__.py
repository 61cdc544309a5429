"""The checks D01 to D48 of a drill, a module for each group; :mod:`.suite` runs them."""

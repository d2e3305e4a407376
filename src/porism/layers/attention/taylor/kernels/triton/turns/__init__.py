"""A state by turns, x_i x_(i+s) for one s after the other: every product once, for narrow queries and keys."""

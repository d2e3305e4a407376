"""A state by pairs, x_i x_j for one i after the other: some products twice, but none is spent on bringing x_i to x_j.

A turned vector is a product with a matrix, as much work as what the state does with it. x_i alone is a number a token,
which multiplies rows where they are. Half of all products would be twice in a full square; of these half are left out:
where i is in the upper half of a vector and j in the lower one. For queries and keys of width 64 that is faster.
"""

"""Numbers that the kernels for CPUs and GPUs share."""

ALIGNED = 8
"""Rows are padded with zeros to a multiple of this: no remainder on a CPU, four numbers at a time on a GPU."""

MAX_SCORE = 8
"""Scores beyond are taken as this much: the sigmoid is so near 0 or 1 that no learning rate makes it matter."""

SPLITMIX_INCREMENT = 0x9E3779B97F4A7C15
"""splitmix64 counts in steps of 2^64 over the golden ratio, and mixes the count by two multiplications."""

SPLITMIX_FIRST, SPLITMIX_SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

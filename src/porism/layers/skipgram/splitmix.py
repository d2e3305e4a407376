"""The constants of splitmix64: random numbers from a state that only counts, so that each place has its own."""

GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

"""Results of runs that were kept, and what they say of statements that only training or a clock decides."""

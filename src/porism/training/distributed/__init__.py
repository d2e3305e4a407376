"""Data-parallel training: torchrun starts the processes, rank 0 leads, each takes its part of every batch."""

"""What all kernels take for sigma far from zero."""

REACH = 8
"""Scores beyond count as this much: sigma differs from 0 or 1 by less than a rate can make matter."""

GOLDEN = 0x9E3779B97F4A7C15

FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB

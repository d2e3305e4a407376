"""What all kernels take for sigma far from zero."""

REACH = 8
"""Scores beyond count as this much: sigma differs from 0 or 1 by less than a rate can make matter."""

"""A task in one folder: which of two moons is a point of?"""

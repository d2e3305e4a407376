"""How the cells of a table in a file are separated."""

SEPARATORS = (",", "\t", ";")


def most_frequent_separator(line: str) -> str:
    """The separator that a line has most of, of equals a comma.

    >>> most_frequent_separator("height;width;kind")
    ';'
    """
    return max(SEPARATORS, key=line.count)

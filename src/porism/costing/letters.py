"""One alphabet: a letter means one thing in the formulas, the shape comments, the docs and `--at`."""

ALPHABET: dict[str, str] = {
    "B": "batch",
    "T": "length",
    "D": "width",
    "H": "hidden width",
    "A": "heads",
    "M": "features of a feature map",
    "K": "order of a series",
    "W": "window",
    "V": "vocabulary",
    "N": "nodes",
    "E": "edges",
    "C": "channels",
    "Y": "rows",
    "X": "columns",
    "G": "key heads",
    "S": "key length",
    "L": "layers",
}

"""Three sets of data a task that no default was tuned for: from installed packages, or made by the generators here.

| task | sets |
|---|---|
| language, words | docstrings of numpy; source code of Python's package email; scikit-learn's descriptions of data |
| images | letters in the fonts of matplotlib; patches of scikit-learn's two photographs; drawn shapes |
| graphs | people whose columns are chance; wines, each joined to its 5 nearest; Davis's southern women |
| sentiment | docstrings of three packages; lines of source, comments and prose; reviews with exceptions |
| supervised | scikit-learn's wine, breast cancer and diabetes (numbers, loss mse) |
| speech | digits spoken by espeak-ng; words in Morse code; numbers as the tones of a telephone |

The same packages give the same data: every draw is from a seed.
"""

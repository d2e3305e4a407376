"""From code to formula: what a layer or a model costs.

Names are imported from the files that define them, so that a layer that uses one file does not load sympy for the
others: `costing.letters` says what letters mean, `costing.alphabet` has their symbols, `costing.terms` the costs
derived by hand, `costing.cost` what `porism.cost` returns, `costing.derive` how that is found.
"""

from time import time

LOADED_AT = time()
"""Layers load this package first: what was edited later is not the code that runs."""

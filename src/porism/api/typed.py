"""porism.train and porism.compare, with the fields of every recipe for type checkers and editors in typed.pyi."""

from porism.api.compare import compare as compare
from porism.api.train import train as train

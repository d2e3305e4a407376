"""What the counters are tried on, each with its products worked out by hand from the textbook.

Two operations for a multiply-add; biases, masks, activations and sums are elementwise and no products. Every real input
asks for a gradient unless the name of the case says otherwise, a recurrent net's first state too, so a product goes
back by two: one towards its input, one towards its weight. Where a kernel does more or less, a comment says so.

W is the size of a convolution's kernel, the number of keys that are looked at, and the number of labels.
"""

from counter_cases.attention import ATTENTION
from counter_cases.case import SIZES, Call, Case, call, written
from counter_cases.convolution import CONVOLUTION
from counter_cases.elementwise import ELEMENTWISE
from counter_cases.products import LEARNED_IN_PART, PRODUCTS
from counter_cases.recurrent import RECURRENT
from counter_cases.signals import SIGNALS
from counter_cases.sparse import SPARSE
from counter_cases.vocabulary import VOCABULARY

__all__ = ["CASES", "SIZES", "Call", "Case", "call", "written"]

CASES = [
    *PRODUCTS,
    *RECURRENT,
    *ATTENTION,
    *CONVOLUTION,
    *VOCABULARY,
    *ELEMENTWISE,
    *LEARNED_IN_PART,
    *SPARSE,
    *SIGNALS,
]

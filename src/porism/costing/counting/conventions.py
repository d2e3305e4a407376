"""What counts as an operation: stated with every formula, and switchable."""

from dataclasses import dataclass

from sympy import Expr

from porism.costing.alphabet import factored
from porism.errors import RecipeError

ELEMENTWISE = (
    "one for each element of elementwise work (none for that inside of fused kernels, for biases of products, "
    "for comparisons and copies)"
)


@dataclass(frozen=True)
class Conventions:
    """How operations are counted.

    >>> Conventions().text
    '2 for a multiply-add, causal products in full, elementwise work left out'
    >>> Conventions(multiply_add=1).unit
    'MACs'
    """

    multiply_add: int = 2
    """2 counts floating-point operations, 1 counts multiply-adds."""
    causal: str = "full"
    """`half` counts half of the products that a kernel masks causally."""
    elementwise: bool = False
    """Count one operation for each element of sums, activations, norms and the like, too.

    That is those which are operators of their own: not the softmax of fused attention, the gates of an LSTM's kernel,
    the bias of a product."""

    def __post_init__(self) -> None:
        if self.multiply_add not in (1, 2):
            raise RecipeError(f"cost: a multiply-add counts 1 or 2, got {self.multiply_add!r}.")
        if self.causal not in ("full", "half"):
            raise RecipeError(f"cost: causal products count in 'full' or 'half', got {self.causal!r}.")

    @property
    def unit(self) -> str:
        return "FLOPs" if self.multiply_add == 2 else "MACs"

    @property
    def text(self) -> str:
        causal = "in full" if self.causal == "full" else "by half"
        elementwise = ELEMENTWISE if self.elementwise else "elementwise work left out"
        return f"{self.multiply_add} for a multiply-add, causal products {causal}, {elementwise}"

    @property
    def parts(self) -> tuple[str, ...]:
        """The tallies that a number under these conventions is made of."""
        causal = ("causal",) if self.causal == "half" else ()
        return ("products", *causal, *(("elementwise",) if self.elementwise else ()))

    def join(self, products: Expr, causal: Expr, elementwise: Expr) -> Expr:
        """The tallies as one number or formula. Products come at 2 for a multiply-add."""
        if self.causal == "half":
            products = products - causal / 2
        if self.multiply_add == 1:
            products = products / 2
        return factored(products + (elementwise if self.elementwise else 0))


DEFAULT_CONVENTIONS = Conventions()

"""A formula as text, such as `H*(D + H + 1)`, to MathML that every current browser sets."""

import ast
import re
from html import escape

SIGNS = {ast.Add: "+", ast.Sub: "\N{MINUS SIGN}"}
ORDERS = {ast.Lt: "&lt;", ast.LtE: "≤", ast.Gt: "&gt;", ast.GtE: "≥"}
BRACKETS = {"ceiling": ("⌈", "⌉"), "floor": ("⌊", "⌋"), "Abs": ("|", "|")}
SUM, PRODUCT, POWER, ATOM = range(4)
"""How tightly a formula holds together; a looser one inside a tighter one is put in brackets."""


class NotAFormula(Exception):
    """Something that has no line in the language of formulas."""


def mathml(formula: str) -> str:
    """The formula as a `<math>` element; what cannot be read as one stays text.

    >>> mathml("D**2")
    '<math><msup><mrow><mi>D</mi></mrow><mrow><mn>2</mn></mrow></msup></math>'
    """
    # Parsed and traversed, never evaluated: the text comes from a file that may not be ours.
    try:
        return f"<math>{_set(ast.parse(formula, mode='eval').body)[0]}</math>"
    except (SyntaxError, ValueError, RecursionError, MemoryError, NotAFormula):
        return f"<code>{escape(formula)}</code>"


def letters(formula: str) -> set[str]:
    """The names a formula is written in.

    >>> sorted(letters("H*(D + H + 1)"))
    ['D', 'H']
    """
    return set(re.findall(r"[A-Za-z]\w*", formula))


def _set(node: ast.expr) -> tuple[str, int]:
    """The markup of a node, and how tightly it holds together."""
    match node:
        case ast.Constant(value=bool()):
            raise NotAFormula
        case ast.Constant(value=int() | float() as value):
            return f"<mn>{value:,}</mn>", ATOM
        case ast.Name(id=name) if "_" in name.strip("_"):
            letter, _, index = name.partition("_")
            return f"<msub><mi>{escape(letter)}</mi><mi>{escape(index)}</mi></msub>", ATOM
        case ast.Name(id=name):
            return f"<mi>{escape(name)}</mi>", ATOM
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"<mo>\N{MINUS SIGN}</mo>{_bracketed(operand, PRODUCT)}", SUM
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            # After a minus a sum needs its brackets; after a plus it does not.
            tightness = PRODUCT if isinstance(sign, ast.Sub) else SUM
            return f"{_bracketed(left, SUM)}<mo>{SIGNS[type(sign)]}</mo>{_bracketed(right, tightness)}", SUM
        case ast.BinOp(op=ast.Mult() | ast.Div()) if (positive := _without_minus(node)) is not None:
            return f"<mo>\N{MINUS SIGN}</mo>{_bracketed(positive, PRODUCT)}", SUM
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            # Letters stand side by side; a number after something else would read as part of it.
            times = "<mo>·</mo>" if _starts_with_number(right) else '<mspace width="0.17em"/>'
            return f"{_bracketed(left, PRODUCT)}{times}{_bracketed(right, PRODUCT)}", PRODUCT
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return f"<mfrac><mrow>{_set(left)[0]}</mrow><mrow>{_set(right)[0]}</mrow></mfrac>", PRODUCT
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return f"<msup><mrow>{_bracketed(left, ATOM)}</mrow><mrow>{_set(right)[0]}</mrow></msup>", POWER
        case ast.Call(func=ast.Name(id="sqrt"), args=[only], keywords=[]):
            return f"<msqrt>{_set(only)[0]}</msqrt>", ATOM
        case ast.Call(func=ast.Name(id=name), args=[only], keywords=[]) if name in BRACKETS:
            opening, closing = BRACKETS[name]
            return f"<mrow><mo>{opening}</mo>{_set(only)[0]}<mo>{closing}</mo></mrow>", ATOM
        case ast.Call(func=ast.Name(id="Piecewise"), args=cases, keywords=[]):
            rows = "".join(f"<mtr>{_case(case)}</mtr>" for case in cases)
            return f'<mrow><mo>{{</mo><mtable columnalign="left">{rows}</mtable></mrow>', ATOM
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            listed = "<mo>,</mo>".join(_set(argument)[0] for argument in arguments)
            return f"<mi>{escape(name.lower())}</mi><mo>(</mo>{listed}<mo>)</mo>", ATOM
        case _:
            raise NotAFormula


def _case(node: ast.expr) -> str:
    """A row of a formula with branches: what holds, and where."""
    match node:
        case ast.Tuple(elts=[formula, ast.Constant(value=True)]):
            condition = "<mtext>else</mtext>"
        case ast.Tuple(elts=[formula, ast.Compare(left=left, ops=[sign], comparators=[right])]) if type(sign) in ORDERS:
            condition = (
                f"<mtext>if\N{NO-BREAK SPACE}</mtext>{_set(left)[0]}<mo>{ORDERS[type(sign)]}</mo>{_set(right)[0]}"
            )
        case _:
            raise NotAFormula
    return f"<mtd>{_set(formula)[0]}</mtd><mtd>{condition}</mtd>"


def _bracketed(node: ast.expr, tightness: int) -> str:
    markup, own = _set(node)
    return markup if own >= tightness else f"<mo>(</mo>{markup}<mo>)</mo>"


def _without_minus(node: ast.expr) -> ast.expr | None:
    """The product without the minus that it starts with; None where it starts with none."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return operand
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as sign, right=right):
            positive = _without_minus(left)
            return None if positive is None else ast.BinOp(positive, sign, right)
    return None


def _starts_with_number(node: ast.expr) -> bool:
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Pow):
        node = node.left
    return isinstance(node, ast.Constant)

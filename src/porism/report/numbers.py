"""Numbers as people read them."""

import math

MISSING = "–"
MINUS = "\N{MINUS SIGN}"
PREFIXES = ["", "k", "M", "G", "T", "P", "E"]
SMALL, LARGE = 1e-12, 1e9
"""Metrics below are 0 but for rounding; from the other on they are written with an exponent."""


def count(value: float | None) -> str:
    """
    >>> count(1525100)
    '1,525,100'
    """
    if value is None:
        return MISSING
    return f"{value:,.0f}" if math.isfinite(value) else "infinite"


def counted(value: float | None, unit: str) -> str:
    """A count and what is counted, in the plural where it is one.

    >>> counted(1, "epoch"), counted(1000, "image"), counted(140, "passage of 50 words")
    ('1 epoch', '1,000 images', '140 passages of 50 words')
    """
    if value == 1:
        return f"1 {unit}"
    thing, of, parts = unit.partition(" of ")
    return f"{count(value)} {thing}s{of}{parts}"


def metric_name(metric: str) -> str:
    """A metric as people write it.

    >>> metric_name("cer"), metric_name("cross_entropy"), metric_name("macro_f1")
    ('CER', 'cross entropy', 'macro F1')
    """
    return " ".join(word.upper() if word in ("auc", "cer", "f1", "wer") else word for word in metric.split("_"))


def sentence(text: str) -> str:
    """The text with a capital at its start, and the others as they are.

    >>> sentence("CER, lower is better"), sentence("accuracy")
    ('CER, lower is better', 'Accuracy')
    """
    return text[:1].upper() + text[1:]


def amount(value: float | None, unit: str = "") -> str:
    """A large number with a prefix.

    >>> amount(6_120_000, "FLOP"), amount(830)
    ('6.1 MFLOP', '830')
    """
    if value is None:
        return MISSING
    scaled, prefix = _prefixed(value)
    digits = 0 if abs(scaled) >= 99.95 or (not prefix and float(value).is_integer()) else 1
    return f"{scaled:,.{digits}f} {prefix}{unit}".strip()


def tick(value: float) -> str:
    """A number on an axis: all its figures, less what floating point adds to them.

    >>> tick(152.5), tick(2_400_000), tick(1500)
    ('152.5', '2.4 M', '1.5 k')
    """
    scaled, prefix = _prefixed(value)
    return f"{scaled:.6g} {prefix}".strip()


def score(value: float | None) -> str:
    """A metric, to four figures.

    >>> score(138.384), score(0.97312), score(4.9)
    ('138.4', '0.9731', '4.900')
    >>> score(2.513e-8), score(5.59728604e17)
    ('0.000000025', '5.597e+17')
    """
    if value is None or math.isnan(value):
        return MISSING
    return _signless(value, value)


def difference(value: float, reference: float) -> str:
    """How far a metric lies from a reference, to the decimals the metric is given with.

    >>> difference(154.92, 159.64)
    '−4.7'
    """
    gap = value - reference
    text = _signless(abs(gap), value)
    return text if not float(text.replace(",", "")) else f"{MINUS if gap < 0 else '+'}{text}"


def gap(value: float, reference: float) -> str:
    """The distance of two metrics without its sign, to the decimals of the first."""
    return _signless(abs(value - reference), value)


def with_margin(value: float, margin: float | None) -> str:
    """A number and how far the true one may lie to either side: two figures of the margin, as many decimals of both.

    >>> with_margin(0.8213, 0.0041), with_margin(152.04, 2.484), with_margin(0.8213, None)
    ('0.8213 ± 0.0041', '152.0 ± 2.5', '0.8213')
    """
    if not margin or not math.isfinite(margin):
        return score(value) if margin is None else f"{score(value)} ± {fixed(margin, decimals(value))}"
    digits = figures(margin)
    return f"{fixed(value, digits)} ± {fixed(margin, digits)}"


def ranged(value: float, low: float, high: float) -> str:
    """A number and the ends of its interval, with decimals enough to tell the ends apart, and each of them from 0.

    >>> ranged(0.032, 0.021, 0.043), ranged(4.63, 3.88, 5.38), ranged(0.01144, 0.00044, 0.02244)
    ('0.032 (0.021 to 0.043)', '4.63 (3.88 to 5.38)', '0.0114 (0.0004 to 0.0224)')
    """
    digits = figures((high - low) / 2) if high > low else decimals(value)
    # Which side of 0 an end lies on decides; one that is 0 but for rounding is 0.
    ends = [end for end in (low, high) if abs(end) > 1e-9 * max(abs(low), abs(high))]
    digits += next((more for more in range(9) if all(round(end, digits + more) for end in ends)), 0)
    return f"{fixed(value, digits)} ({fixed(low, digits)} to {fixed(high, digits)})"


def fixed(value: float, digits: int) -> str:
    """The value with as many decimals; nothing negative is left of what rounds to 0."""
    if not math.isfinite(value):
        return "infinite"
    if abs(value) >= LARGE:
        return f"{value:.4g}".replace("-", MINUS)
    text = f"{value:,.{digits}f}"
    return (text.removeprefix("-") if not float(text.replace(",", "")) else text).replace("-", MINUS)


def figures(size: float) -> int:
    """The decimals that give a size two figures.

    >>> figures(0.0041), figures(2.5), figures(31.0)
    (4, 1, 0)
    """
    return max(0, 1 - math.floor(math.log10(float(f"{size:.1e}")))) if size else 0


def decimals(size: float) -> int:
    """The decimals that give a metric four figures; one below 1 has four decimals, one below 0.001 two figures."""
    size = abs(size)
    if size < 1:
        return figures(size) if SMALL < size < 0.001 else 4
    return 3 - math.floor(math.log10(size)) if size < 1000 else 0


def percent(part: float) -> str:
    """
    >>> percent(0.0307), percent(0.42)
    ('3.1 %', '42 %')
    """
    if 0 < part < 0.0005:
        return "< 0.1 %"
    return f"{100 * part:.{1 if part < 0.0995 else 0}f} %"


def duration(seconds: float | None) -> str:
    """
    >>> duration(0.0123), duration(7.71), duration(192), duration(3840)
    ('12 ms', '7.7 s', '3 min 12 s', '1 h 04 min')
    """
    if seconds is None:
        return MISSING
    if 0 < seconds < 0.0995:
        return brief(float(f"{seconds:.2g}"))
    if seconds < 99.5:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min"


def brief(seconds: float | None) -> str:
    """A short time, to three figures.

    >>> brief(0.0000317), brief(0.25), brief(12.34)
    ('31.7 µs', '250 ms', '12.3 s')
    """
    if seconds is None:
        return MISSING
    exponent = next((n for n in range(3) if seconds >= 0.9995 / 1000**n), 3)
    return f"{float(f'{seconds * 1000**exponent:.3g}'):g} {('s', 'ms', 'µs', 'ns')[exponent]}"


def _prefixed(value: float) -> tuple[float, str]:
    # What rounds to a thousand takes the next prefix.
    exponent = next((n for n in range(len(PREFIXES)) if abs(value) < 999.5 * 1000**n), len(PREFIXES) - 1)
    return value / 1000**exponent, PREFIXES[exponent]


def _signless(value: float, scale: float) -> str:
    """The value with as many decimals as give the scale four figures."""
    if not math.isfinite(value):
        return "infinite"
    if abs(value) >= LARGE:
        return f"{value:.4g}".replace("-", MINUS)
    return f"{value:,.{decimals(scale)}f}".replace("-", MINUS)

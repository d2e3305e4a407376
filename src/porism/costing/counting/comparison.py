"""A run on fake tensors held against one on real ones."""

from porism.costing.counting.count import Count, total


def difference(fake: Count, real: Count) -> str:
    """What a real run does that one on fake tensors did not; empty where they are the same."""
    if fake.saved_bytes != real.saved_bytes:
        return f"{fake.saved_bytes:,} bytes kept where real ones keep {real.saved_bytes:,}"
    for fakes, reals in ((fake.forward, real.forward), (fake.backward, real.backward)):
        if fakes != reals:
            return f"{total(fakes):,} FLOPs where real ones do {total(reals):,}"
    if fake.uncounted != real.uncounted:
        return f"other operators: {', '.join(set(fake.uncounted) ^ set(real.uncounted))}"
    return ""

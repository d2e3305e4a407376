"""Sentences of a small grammar: short, of few words, and so many that none need be said twice.

>>> sentences(3, seed=1)
['keep it behind the door at night', 'who can keep the box?', 'eight dogs wait on the roof']
"""

import random
import re

RULES: dict[str, tuple[str, ...]] = {
    "sentence": ("{order}", "{order}", "{question}", "{report}", "{count}"),
    "order": ("{do} {one} {thing} {place}", "{do} {one} {colour} {thing}", "{do} it {place} {when}"),
    "question": ("where is {one} {colour} {thing}?", "who can {do} {one} {thing}?", "is {one} {animal} {place}?"),
    "report": ("{one} {animal} {does} {place}", "{one} {colour} {animal} {does} {when}"),
    "count": ("{number} {animals} {act} {place}", "we saw {number} {animals} {when}"),
    "do": ("bring", "find", "hide", "move", "wash", "keep", "drop"),
    "one": ("the", "my", "your", "her"),
    "colour": ("red", "blue", "green", "yellow", "black", "white", "old", "small"),
    "thing": ("box", "cup", "coat", "letter", "lamp", "basket", "spoon", "picture", "hammer"),
    "animal": ("dog", "cat", "horse", "bird", "rabbit"),
    "animals": ("dogs", "cats", "horses", "birds", "rabbits"),
    "does": ("sleeps", "waits", "runs", "eats"),
    "act": ("sleep", "wait", "run", "eat"),
    "place": ("under the table", "behind the door", "near the river", "in the garden", "on the roof", "at home"),
    "when": ("today", "tomorrow", "at night", "on monday", "on friday", "every morning"),
    "number": ("two", "three", "four", "five", "six", "seven", "eight", "nine"),
}
REFERENCE = re.compile(r"\{(\w+)\}")


def sentences(count: int, seed: int) -> list[str]:
    """So many different sentences, in an order that the seed decides."""
    draw = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_expand("{sentence}", draw)] = None
    return list(found)


def words() -> set[str]:
    """All words that can occur."""
    ends = [option for options in RULES.values() for option in options]
    return {word for option in ends for word in re.findall(r"[a-z]+", REFERENCE.sub("", option))}


def _expand(text: str, draw: random.Random) -> str:
    while reference := REFERENCE.search(text):
        options = RULES[reference[1]]
        # random() alone is promised to draw the same from one Python to the next.
        chosen = options[int(draw.random() * len(options))]
        text = text[: reference.start()] + chosen + text[reference.end() :]
    return text

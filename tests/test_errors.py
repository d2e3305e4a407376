"""What the end of a message names."""

from porism.errors import nearest


def test_a_near_name_is_meant() -> None:
    assert nearest("langauge", ["images", "language"]) == "Did you mean language?"


def test_of_many_names_ten_are_listed_the_nearest_first() -> None:
    names = [f"{letter}{letter}{letter}" for letter in "abcdefghijklmnop"]
    assert nearest("pxxxxx", names) == "Known: ppp, aaa, bbb, ccc, ddd, eee, fff, ggg, hhh, iii and 6 more."
    assert nearest("pxxxxx", names[:3]) == "Known: aaa, bbb, ccc."

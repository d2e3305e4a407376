"""What a message is made of."""

from porism.errors import Advice, RunError, advise, nearest


def test_a_near_name_is_meant() -> None:
    assert nearest("langauge", ["images", "language"]) == "Did you mean language?"


def test_of_many_names_ten_are_listed_the_nearest_first() -> None:
    names = [f"{letter}{letter}{letter}" for letter in "abcdefghijklmnop"]
    assert nearest("pxxxxx", names) == "Known: ppp, aaa, bbb, ccc, ddd, eee, fff, ggg, hhh, iii and 6 more."
    assert nearest("pxxxxx", names[:3]) == "Known: aaa, bbb, ccc."


def test_a_message_is_one_line_whatever_came() -> None:
    odd = "a\nb\r\x1b[2J\u2028\ud800c"
    error = RunError(f"{odd} is no folder.", advise("Choose another {}.", Advice(f"--out {odd}", f"out={odd!r}")))
    for message in (str(error), error.in_python):
        assert len(message.splitlines()) == 1
        assert message.isprintable()
        assert r"a\nb\r\x1b[2J\u2028\ud800c" in message
    assert len(str(RunError(f"{'x' * 100_000} is no folder."))) < 400
    path = "/a/long/path" * 20
    assert str(RunError(f"{path} is no folder.")) == f"{path} is no folder."

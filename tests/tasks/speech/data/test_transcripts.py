"""Transcripts in files of the user's own naming, and what is wrong with them in one line."""

from pathlib import Path

import pytest
from tests.tasks.speech.sounds import sound

from porism.errors import DataError
from porism.tasks.speech.data import SPLITS, Recordings, load_recordings


def texts(recordings: Recordings) -> dict[str, dict[str, str]]:
    return {split: {one.name: one.text for one in recordings.splits[split]} for split in SPLITS}


@pytest.fixture
def librispeech(tmp_path: Path) -> Path:
    """Three parts of a speaker each, laid out as LibriSpeech is."""
    for number, part in enumerate(("train-clean-100", "dev-clean", "test-clean")):
        folder = tmp_path / "LibriSpeech" / part / f"{number}" / "121123"
        lines = []
        for line in range(2):
            sound(folder / f"{number}-121123-000{line}.flac", seed=10 * number + line)
            lines.append(f"{number}-121123-000{line} GO ON {part.upper()}\n")
        (folder / f"{number}-121123.trans.txt").write_text("".join(lines))
    return tmp_path / "LibriSpeech"


def test_librispeech_as_it_is_laid_out(librispeech: Path) -> None:
    found = load_recordings(str(librispeech))
    assert texts(found)["train"] == dict.fromkeys(["0-121123-0000", "0-121123-0001"], "GO ON TRAIN-CLEAN-100")
    assert texts(found)["valid"].keys() == {"1-121123-0000", "1-121123-0001"}
    assert found.facts["split"] == "by folder"
    assert load_recordings(str(librispeech), transcripts="*.trans.txt").fingerprint() == found.fingerprint()


@pytest.mark.parametrize(
    ("pattern", "line"),
    [("text.csv", "{}.wav|in 14{}|in fourteen {}\n"), ("*.lst", "{}\tsaid {}\n"), ("list", "{} a b\n")],
)
def test_a_line_for_each_recording(tmp_path: Path, pattern: str, line: str) -> None:
    for number in range(20, 40):
        sound(tmp_path / "wavs" / f"{number}.wav", seed=number)
    lines = [line.replace("{}", str(number)) for number in range(20, 40)]
    (tmp_path / pattern.replace("*", "all")).write_text("".join(lines))
    found = texts(load_recordings(str(tmp_path), transcripts=pattern))
    expected = {"text.csv": "in fourteen 30", "*.lst": "said 30", "list": "a b"}[pattern]
    assert {**found["train"], **found["valid"], **found["test"]}["30"] == expected
    assert [len(found[split]) for split in SPLITS] == [16, 2, 2]


@pytest.mark.parametrize("pattern", ["{name}.lab", "../text/{name}.txt"])
def test_a_file_for_each_recording(tmp_path: Path, pattern: str) -> None:
    for number in range(12):
        file = sound(tmp_path / "clips" / f"{number}.wav", seed=number)
        transcript = file.parent / pattern.replace("{name}", f"{number}")
        transcript.parent.mkdir(exist_ok=True)
        transcript.write_text(f"number\n{number}\n")
    found = texts(load_recordings(str(tmp_path), transcripts=pattern))
    assert sum(map(len, found.values())) == 12
    assert {**found["train"], **found["valid"], **found["test"]}["7"] == "number 7"
    transcript.unlink()
    with pytest.raises(DataError, match="11.wav: no transcript .* Write it there"):
        load_recordings(str(tmp_path), transcripts=pattern)


def test_what_is_wrong_is_said_with_its_place(librispeech: Path) -> None:
    def refused(pattern: str = "*.trans.txt", source: Path | str = librispeech) -> str:
        with pytest.raises(DataError) as raised:
            load_recordings(str(source), transcripts=pattern)
        assert "\n" not in str(raised.value)
        return str(raised.value)

    assert "no file *.tarns.txt in it or below it" in refused("*.tarns.txt")
    assert "expected names of files below" in refused("/etc/*")
    assert "is for a folder of recordings, and spoken is none" in refused(source="spoken")
    list_of_one = librispeech / "dev-clean/1/121123/1-121123.trans.txt"
    whole = list_of_one.read_text()
    list_of_one.write_text(whole + "1-121123-0009 NOT THERE\n")
    assert "1-121123.trans.txt, line 3: no recording 1-121123-0009" in refused()
    list_of_one.write_text(whole + "1-121123-0001\n")
    assert "line 3: '1-121123-0001' has no transcript" in refused()
    list_of_one.write_text(whole)
    sound(librispeech / "dev-clean/1/121123/again/1-121123-0001.wav", seed=99)
    assert "two recordings of one name" in refused()


def test_one_recording_cannot_be_split(tmp_path: Path) -> None:
    sound(tmp_path / "a.wav", seed=1)
    (tmp_path / "all.trans.txt").write_text("a go on\n")
    with pytest.raises(DataError, match="no utterance for train. Give more recordings"):
        load_recordings(str(tmp_path))

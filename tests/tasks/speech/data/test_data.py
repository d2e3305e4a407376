"""Recordings in every layout, split as promised, and bad lists with file and line."""

import hashlib
import tarfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
import torch
from tests.tasks.speech.sounds import sound

from porism.errors import DataError
from porism.tasks.speech.catalogue import CATALOGUE, PUBLIC
from porism.tasks.speech.data import Utterance, load_recordings
from porism.tasks.speech.data.audio import Sound
from porism.tasks.speech.data.ljspeech import split_by_position
from porism.tasks.speech.data.recordings import SPLITS, Recordings, hold_out, speaker_of

Lists = Callable[[dict[str, Sequence[str]]], Path]


def names(recordings: Recordings) -> dict[str, list[str]]:
    return {split: [utterance.name for utterance in recordings.splits[split]] for split in SPLITS}


@pytest.fixture
def ljspeech(tmp_path: Path) -> Path:
    """Twenty clips, as the real ones are laid out, but of several kinds of file."""
    folder = tmp_path / "LJSpeech-1.1"
    lines = []
    for number in range(1, 21):
        name = f"LJ001-{number:04d}"
        sound(folder / "wavs" / f"{name}{('.wav', '.flac')[number % 2]}", seed=number)
        lines.append(f"{name}|in {1400 + number},|in fourteen hundred and {number},\n")
    (folder / "metadata.csv").write_text("".join(lines))
    return folder


@pytest.fixture
def an4(tmp_path: Path) -> Path:
    """Three utterances of each of eleven speakers in train, and one of one in test."""
    folder = tmp_path / "an4"
    (folder / "etc").mkdir(parents=True)
    train = [f"an{number}-f{chr(97 + number % 11)}aw-b" for number in range(33)]
    seeds = count()
    for split, members in (("train", train), ("test", ["cen7-mxyz-b"])):
        lines = [f"<s> GO {name[2:4].upper()} </s> ({name})\n" for name in members]
        (folder / "etc" / f"an4_{split}.transcription").write_text("".join(lines))
        below = folder / "wav" / ("an4_clstk" if split == "train" else "an4test_clstk") / "spk"
        for name in members:
            sound(below / f"{name}.sph", seed=next(seeds))
    return folder


@pytest.fixture
def lists(tmp_path: Path) -> Lists:
    """A folder of lists, each with its recordings."""

    def written(texts: dict[str, Sequence[str]]) -> Path:
        folder = tmp_path / "mine"
        seeds = count()
        for split, lines in texts.items():
            rows = []
            for number, text in enumerate(lines):
                file = sound(folder / "clips" / f"{split}{number}.wav", seed=next(seeds))
                rows.append(f"{file.relative_to(folder)}\t{text}\n")
            (folder / f"{split}.tsv").write_text("".join(rows), encoding="utf-8")
        return folder

    return written


def test_ljspeech_is_split_by_position(ljspeech: Path) -> None:
    recordings = load_recordings(str(ljspeech))
    assert [len(recordings.splits[split]) for split in SPLITS] == [15, 1, 4]
    everything = [utterance for split in SPLITS for utterance in recordings.splits[split]]
    assert [utterance.name for utterance in everything] == [f"LJ001-{number:04d}" for number in range(1, 21)]
    assert everything[0].text == "in fourteen hundred and 1,"
    assert everything[0].sound(22_050).notes == ("resampled from 16000 Hz",)
    assert recordings.facts["train utterances"] == 15
    assert str(recordings.facts["unknown characters"]).startswith("12 x 1, 3 x 2, 2 x 3")


def test_all_of_ljspeech_gives_the_published_split() -> None:
    silence = Sound(torch.zeros(1), 16_000)
    splits = split_by_position([Utterance(str(index), "a", silence) for index in range(13_100)])
    assert [len(splits[split]) for split in SPLITS] == [9825, 655, 2620]
    assert splits["test"][0].name == "10480"


def test_the_public_archive_is_unpacked_once(ljspeech: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive_path = tmp_path / "data" / "ljspeech" / "LJSpeech-1.1.tar.bz2"
    archive_path.parent.mkdir(parents=True)
    with tarfile.open(archive_path, "w:bz2") as archive:
        archive.add(ljspeech, ljspeech.name)
    sha256 = hashlib.sha256(archive_path.read_bytes()).hexdigest()
    file = replace(PUBLIC["ljspeech"].files["all"], sha256=sha256)
    monkeypatch.setitem(PUBLIC, "ljspeech", replace(PUBLIC["ljspeech"], files={"all": file}))
    monkeypatch.setenv("PORISM_DATA", str(tmp_path / "data"))
    recordings = load_recordings("ljspeech")
    assert recordings.fingerprint() == load_recordings(str(ljspeech)).fingerprint()
    archive_path.unlink()
    assert names(load_recordings("ljspeech")) == names(recordings)
    assert sorted(left.name for left in archive_path.parent.iterdir()) == ["LJSpeech-1.1"]


def test_an4_as_cmu_gives_it_out(an4: Path) -> None:
    recordings = load_recordings(str(an4))
    assert [len(recordings.splits[split]) for split in SPLITS] == [27, 6, 1]
    first = recordings.splits["test"][0]
    assert (first.name, first.text) == ("cen7-mxyz-b", "GO N7")
    assert len(first.sound().samples) == 1600
    speakers = {split: {speaker_of(name) for name in names(recordings)[split]} for split in ("train", "valid")}
    assert speakers["train"].isdisjoint(speakers["valid"])
    assert recordings.facts["split"] == "as published, valid 2 speakers held out"


def test_lists_as_they_are(lists: Lists) -> None:
    recordings = load_recordings(str(lists({"train": ["a b", "c"], "dev": ["d"], "test": ["e"]})))
    assert {split: [u.text for u in recordings.splits[split]] for split in SPLITS} == {
        "train": ["a b", "c"],
        "valid": ["d"],
        "test": ["e"],
    }
    assert recordings.facts["split"] == "as listed"


def test_a_text_beside_each_recording(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    for number in range(12):
        file = sound(folder / "clips" / f"{number:02d}.wav", seed=number)
        file.with_suffix(".txt").write_text(f"number\n{number}\n")
    recordings = load_recordings(str(folder))
    assert [len(recordings.splits[split]) for split in SPLITS] == [9, 1, 2]
    assert {u.name: u.text for split in SPLITS for u in recordings.splits[split]}["07"] == "number 7"
    assert recordings.facts["split"] == "test drawn at random, valid drawn at random"
    for number, split in enumerate(("train", "dev", "test")):
        file = sound(tmp_path / "split" / split / f"{split}.flac", seed=number)
        file.with_suffix(".txt").write_text(split)
    apart = load_recordings(str(tmp_path / "split"))
    assert [apart.splits[split][0].text for split in SPLITS] == ["train", "dev", "test"]
    assert apart.facts["split"] == "by folder"
    sound(tmp_path / "split" / "more.wav", seed=9)
    with pytest.raises(DataError, match=r"more.wav: beside the folders of the splits"):
        load_recordings(str(tmp_path / "split"))
    (folder / "clips" / "03.txt").unlink()
    with pytest.raises(DataError, match=r"03.wav: no 03.txt beside it. Write its transcript there"):
        load_recordings(str(folder))


def test_valid_is_held_out_where_no_list_says(lists: Lists) -> None:
    folder = lists({"train": [f"w {n}" for n in range(30)], "test": ["z"]})
    recordings = load_recordings(str(folder))
    assert [len(recordings.splits[split]) for split in SPLITS] == [27, 3, 1]
    assert names(recordings) == names(load_recordings(str(folder)))
    assert recordings.facts["split"] == "as listed, valid drawn at random"


def test_one_list_is_split_in_three(lists: Lists) -> None:
    folder = lists({"all": ["one"] * 40})
    path = folder / "all.tsv"
    path.write_text("path\ttranscript\n" + path.read_text())
    recordings = load_recordings(str(path))
    members = [name for split in SPLITS for name in names(recordings)[split]]
    assert [len(recordings.splits[split]) for split in SPLITS] == [32, 4, 4]
    assert len(set(members)) == 40


@pytest.mark.parametrize("count", [2, 7, 63])
def test_holding_out_loses_nothing(count: int) -> None:
    silence = Sound(torch.zeros(1), 16_000)
    given = [Utterance(f"clip {number}", "a", silence) for number in range(count)]
    kept, held, _ = hold_out(given)
    assert sorted([*kept, *held], key=given.index) == given
    assert len(held) == -(-count // 10)


def test_a_folder_is_held_out_as_a_whole() -> None:
    """bob/001.wav and bob/002.wav are likely one speaker's, though the names do not say so."""
    given = [Utterance(f"{n:03}", "a", Path(f"{name}/{n:03}.wav")) for name in "abcdefghij" for n in range(3)]
    _, held, how = hold_out(given)
    assert len(held) == 3
    assert len({utterance.source.parent for utterance in held}) == 1  # type: ignore[union-attr]
    assert how == "1 folder held out"
    # Of two folders none can be held out: the voices that are tested are then known, which is told.
    assert hold_out(given[:6])[2] == "drawn at random, from folders that train has too"
    assert hold_out(given[:3])[2] == "drawn at random"


def test_sentences_that_train_has_too_are_counted(lists: Lists) -> None:
    recordings = load_recordings(str(lists({"train": ["a b", "C"], "dev": ["d"], "test": ["c", "e"]})))
    assert recordings.facts["test sentences that are in train too"] == "1 of 2"


def test_a_speaker_is_known_by_the_names_of_three_corpora() -> None:
    speakers = [speaker_of(name) for name in ("an251-fash-b", "cen1-fash-b", "84-121123-0000", "p225_001", "clip7")]
    assert speakers == ["fash", "fash", "84", "p225", None]


def test_the_fingerprint_is_of_sounds_and_texts(ljspeech: Path, tmp_path: Path) -> None:
    original = load_recordings(str(ljspeech)).fingerprint()
    moved = ljspeech.rename(tmp_path / "elsewhere")
    assert load_recordings(str(moved)).fingerprint() == original
    metadata = (moved / "metadata.csv").read_text()
    (moved / "metadata.csv").write_text(metadata.replace("fourteen", "forteen", 1))
    changed = load_recordings(str(moved)).fingerprint()
    (moved / "metadata.csv").write_text(metadata)
    sound(moved / "wavs" / "LJ001-0002.wav", seed=99)
    assert len({original, changed, load_recordings(str(moved)).fingerprint()}) == 3


def test_unknown_characters_are_reported_or_refused(lists: Lists) -> None:
    folder = lists({"train": ["wait", "é!"], "valid": ["no!"], "test": ["e"]})
    assert load_recordings(str(folder)).facts["unknown characters"] == "2 x !, 1 x é"
    with pytest.raises(DataError, match=r"train\.tsv, line 2: the character 'é' is not in the alphabet"):
        load_recordings(str(folder), strict=True)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("clips/train0.wav", r"train\.tsv, line 2: 1 fields, expected two split by a tab: path and transcript\."),
        ("clips/train0.wav\ta\tb", r"train\.tsv, line 2: 3 fields"),
        ("clips/none.wav\tgo", r"train\.tsv, line 2: no recording .*clips.none\.wav\. Put the file there"),
        ("clips/train0.wav\t ", r"train\.tsv, line 2: no transcript for train0\."),
    ],
)
def test_a_bad_line_of_a_list(lists: Lists, line: str, message: str) -> None:
    folder = lists({"train": ["go"], "test": ["a"]})
    path = folder / "train.tsv"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(DataError, match=message):
        load_recordings(str(folder))


def test_a_bad_line_of_ljspeech(ljspeech: Path) -> None:
    metadata = ljspeech / "metadata.csv"
    good = metadata.read_text()
    metadata.write_text(good + "LJ001-0021|only two\n")
    with pytest.raises(DataError, match=r"metadata\.csv, line 21: 2 fields, expected three"):
        load_recordings(str(ljspeech))
    metadata.write_text(good + "LJ001-0021|a|b\n")
    with pytest.raises(DataError, match=r"metadata\.csv, line 21: no recording LJ001-0021\."):
        load_recordings(str(ljspeech))
    metadata.write_bytes(b"LJ001-0001|a|\xff")
    with pytest.raises(DataError, match=r"metadata\.csv, line 1: byte 0xff is not UTF-8"):
        load_recordings(str(ljspeech))
    metadata.write_text("\n")
    with pytest.raises(DataError, match=r"metadata\.csv: empty, no transcript in it"):
        load_recordings(str(ljspeech))
    for file in (ljspeech / "wavs").iterdir():
        file.unlink()
    (ljspeech / "wavs").rmdir()
    with pytest.raises(DataError, match="but no folder wavs"):
        load_recordings(str(ljspeech))


def test_a_bad_line_of_an4(an4: Path) -> None:
    (an4 / "etc/an4_test.transcription").write_text("<s> GO </s>\n")
    with pytest.raises(
        DataError, match=r"an4_test\.transcription, line 1: '<s> GO </s>', expected a transcript with its"
    ):
        load_recordings(str(an4))
    (an4 / "etc/an4_test.transcription").unlink()
    with pytest.raises(DataError, match=r"an4_test\.transcription: no such file"):
        load_recordings(str(an4))


def test_a_set_too_small_to_split(lists: Lists) -> None:
    with pytest.raises(DataError, match="mine: no utterance for train"):
        load_recordings(str(lists({"train": ["a"], "test": ["b"]})))


def test_what_is_no_source(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"spokn: no such file or folder, .* Did you mean spoken\?"):
        load_recordings("spokn")
    with pytest.raises(DataError, match="no transcripts in this folder"):
        load_recordings(str(tmp_path))
    (tmp_path / "a.wav").touch()
    with pytest.raises(DataError, match=r"a\.wav: a single file, expected a folder"):
        load_recordings(str(tmp_path / "a.wav"))


def test_every_public_file_has_an_address_and_a_digest() -> None:
    for data in CATALOGUE.values():
        assert data.about
        assert data.licence
        for file in data.files.values():
            assert file.url.startswith("https://")
            assert len(file.sha256) == 64

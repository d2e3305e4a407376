import errno
import json
import math
import os
import re
import resource
from pathlib import Path

import pytest
import torch
from safetensors.torch import load
from safetensors.torch import save as save_tensors
from tests.runs.tiny_runs import in_a_child, kill_at
from torch import nn

from porism.errors import DiskError, RunError
from porism.files import sha256, sha256_of_json
from porism.runs import checkpoint

PARTS = {"model": {"weight": torch.arange(6.0).view(2, 3)}, "random": {"cpu": torch.arange(4, dtype=torch.uint8)}}


def save(folder: Path, step: int) -> None:
    checkpoint.save(folder, PARTS, {"step": step, "loss": 0.1 + 0.2}, {"assets": {"vocabulary": ["ä", "b"]}})


def test_what_is_saved_comes_back_to_the_bit(tmp_path: Path) -> None:
    save(tmp_path / "last", 3)
    found, warning = checkpoint.load(tmp_path / "last")
    assert warning is None
    assert found.state == {"step": 3, "loss": 0.1 + 0.2}
    assert found.documents == {"assets": {"vocabulary": ["ä", "b"]}}
    for name, tensors in PARTS.items():
        for key, tensor in tensors.items():
            assert torch.equal(found.parts[name][key], tensor)


@pytest.mark.parametrize("file", ["model.safetensors", "random.safetensors", "assets.json", "state.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "remove"])
def test_a_damaged_file_is_refused_by_name_and_the_one_before_is_used(tmp_path: Path, file: str, damage: str) -> None:
    folder = tmp_path / "last"
    save(folder, 1)
    hurt(folder / file, damage)
    with pytest.raises(RunError, match=f"{folder / file} (is damaged|cannot be read)"):
        checkpoint.load(folder)
    save(folder, 2)
    save(folder, 3)
    hurt(folder / file, damage)
    found, warning = checkpoint.load(folder)
    assert found.state["step"] == 2
    assert warning is not None
    assert str(folder / file) in warning
    assert warning.endswith(f"Using the one before it, {folder}.previous.")


def hurt(path: Path, damage: str) -> None:
    content = path.read_bytes()
    if damage == "remove":
        path.unlink()
    elif damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    else:
        middle = len(content) - 20
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])


def test_both_damaged_names_the_newest(tmp_path: Path) -> None:
    folder = tmp_path / "last"
    save(folder, 1)
    save(folder, 2)
    hurt(folder / "state.json", "truncate")
    hurt(tmp_path / "last.previous" / "state.json", "truncate")
    with pytest.raises(RunError, match=str(folder / "state.json")):
        checkpoint.load(folder)


def test_an_altered_number_in_the_state_is_noticed(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)
    path = tmp_path / "last" / "state.json"
    content = json.loads(path.read_text())
    content["state"]["step"] = 7
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="its content was altered"):
        checkpoint.load(tmp_path / "last")


def test_a_kill_between_the_renames_leaves_the_one_before(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)
    (tmp_path / "last").rename(tmp_path / "last.previous")
    assert checkpoint.exists(tmp_path / "last")
    assert checkpoint.load(tmp_path / "last")[0].state["step"] == 1


def test_a_disk_that_takes_no_more_leaves_the_old_checkpoint_good(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)

    def on_a_full_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        with pytest.raises(RunError) as caught:
            checkpoint.save(tmp_path / "last", {"model": {"weight": torch.zeros(10_000)}}, {"step": 2})
        assert f"the disk is full: {tmp_path / 'last'} needs" in str(caught.value)
        assert f"porism train --resume {tmp_path}" in str(caught.value)

    assert in_a_child(on_a_full_disk) == 0
    assert checkpoint.load(tmp_path / "last")[0].state["step"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_shared_parameter_is_saved_once_and_loads_strictly(tmp_path: Path) -> None:
    def build() -> nn.ModuleDict:
        model = nn.ModuleDict({"a": nn.Linear(3, 3, bias=False), "b": nn.Linear(3, 3, bias=False)})
        model["b"].weight = model["a"].weight
        return model

    first, second = build(), build()
    tensors, aliases = checkpoint.model_tensors(first)
    assert list(tensors) == ["a.weight"]
    assert aliases == {"b.weight": "a.weight"}
    checkpoint.save(tmp_path / "best", {"model": tensors}, {"aliases": aliases})
    checkpoint.load_model(second, checkpoint.read(tmp_path / "best"))
    assert torch.equal(second.state_dict()["b.weight"], first.state_dict()["a.weight"])
    other = nn.ModuleDict({"a": nn.Linear(2, 3, bias=False), "b": nn.Linear(3, 3, bias=False)})
    with pytest.raises(RunError, match="does not fit the model of its recipe"):
        checkpoint.load_model(other, checkpoint.read(tmp_path / "best"))


def mine(folder: Path, **contents: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("_", ".")).write_text(content)


FOREIGN = {
    "a file": {"thesis_tex": "years"},
    "a file among ours": {"state_json": '{\n "state": {', "thesis_tex": "years"},
    "a state of others": {"state_json": '{"mine": 1}'},
    "a state of others in our words": {"state_json": '{"state": {}, "files": {}}', "model_safetensors": "mine"},
    "a model of others": {"model_safetensors": "mine, and long enough to hold a header"},
}


@pytest.mark.parametrize("content", FOREIGN)
@pytest.mark.parametrize("name", ["last", "last.previous", ".last.writing"])
def test_a_folder_that_porism_did_not_make_is_neither_deleted_nor_renamed(
    tmp_path: Path, name: str, content: str
) -> None:
    if name != "last":
        save(tmp_path / "last", 1)
    mine(tmp_path / name, **FOREIGN[content])
    before = {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()}
    for _ in range(2):
        with pytest.raises(RunError, match=rf"{re.escape(str(tmp_path / name))} .*Move it elsewhere\."):
            save(tmp_path / "last", 2)
    assert {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} == before
    # What could not be put in place is not lost.
    assert checkpoint.load(tmp_path / "last")[0].state["step"] == (1 if name == ".last.writing" else 2)
    (tmp_path / name).rename(tmp_path / "elsewhere")
    save(tmp_path / "last", 3)
    assert checkpoint.load(tmp_path / "last")[0].state["step"] == 3


@pytest.mark.parametrize("name", ["last", "last.previous", ".last.writing"])
def test_files_links_and_folders_of_others_stay(tmp_path: Path, name: str) -> None:
    mine(tmp_path / "theirs", photo_txt="x")
    (tmp_path / name).symlink_to(tmp_path / "theirs")
    with pytest.raises(RunError, match="but a link or a file. Move it elsewhere."):
        save(tmp_path / "last", 1)
    (tmp_path / name).unlink()
    (tmp_path / name).write_text("x")
    with pytest.raises(RunError, match="but a link or a file. Move it elsewhere."):
        save(tmp_path / "last", 1)
    (tmp_path / name).unlink()
    mine(tmp_path / name / "model.safetensors", inside_txt="x")
    with pytest.raises(RunError, match="Move it elsewhere."):
        save(tmp_path / "last", 1)
    assert (tmp_path / name / "model.safetensors/inside.txt").read_text() == "x"
    assert (tmp_path / "theirs/photo.txt").read_text() == "x"


def test_what_a_file_manager_leaves_is_no_hindrance(tmp_path: Path) -> None:
    for step in range(3):
        save(tmp_path / "last", step)
        (tmp_path / "last/.DS_Store").write_bytes(b"x")
    assert checkpoint.read(tmp_path / "last").state["step"] == 2


def test_one_saved_whole_and_not_yet_renamed_is_the_newest(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)
    save(tmp_path / "other", 2)
    (tmp_path / "other").rename(tmp_path / ".last.writing")
    found, warning = checkpoint.load(tmp_path / "last")
    assert found.state["step"] == 2
    assert warning == f"Using {tmp_path / '.last.writing'}, saved whole."
    hurt(tmp_path / "last/model.safetensors", "flip")
    found, warning = checkpoint.load(tmp_path / "last")
    assert found.state["step"] == 2
    assert warning is not None
    assert warning.endswith(f"Using the newer one, {tmp_path / '.last.writing'}.")
    checkpoint.promote(found, tmp_path / "last")
    assert checkpoint.load(tmp_path / "last")[1] is None
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_a_model_of_nan_is_passed_over(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)
    broken = {**PARTS, "model": {"weight": torch.tensor([[0.0, math.nan]])}}
    checkpoint.save(tmp_path / "last", broken, {"step": 2})
    found, warning = checkpoint.load(tmp_path / "last")
    assert found.state["step"] == 1
    assert warning is not None
    assert "last cannot be used: weight of its model holds NaN. Using the one before it" in warning


def test_infinite_parameters_are_no_numbers_and_an_infinite_mask_is_one() -> None:
    inf = torch.tensor([1.0, -math.inf])
    assert checkpoint.first_not_finite({"weight": inf, "mask": inf}, ["weight"]) == "weight"
    assert checkpoint.first_not_finite({"weight": inf, "mask": inf}, []) is None
    assert checkpoint.first_not_finite({"mask": torch.tensor([math.nan])}, []) == "mask"
    # Their sum overflows; of 8 bits there is none.
    large = torch.full((3,), 3e38)
    eight = torch.tensor([1.0, math.nan]).to(torch.float8_e4m3fn)
    assert checkpoint.first_not_finite({"weight": large, "eight": eight[:1]}, ["weight"]) is None
    assert checkpoint.first_not_finite({"weight": torch.stack([large[0], inf[1]])}, ["weight"]) == "weight"
    assert checkpoint.first_not_finite({"eight": eight}) == "eight"
    assert checkpoint.first_not_finite({"both": torch.tensor([math.inf, -math.inf])}) is None
    assert checkpoint.first_not_finite({"whole": torch.tensor([1]), "none": torch.empty(0)}, ["whole", "none"]) is None


def test_a_state_of_another_shape_is_refused(tmp_path: Path) -> None:
    save(tmp_path / "last", 1)
    for content in ("[]", "7", '{"state": 1, "files": {}, "sha256": ""}', "[" * 100_000, "\xff", "null"):
        (tmp_path / "last/state.json").write_text(content, encoding="latin-1")
        with pytest.raises(RunError, match=r"state\.json is damaged"):
            checkpoint.load(tmp_path / "last")


def resealed(folder: Path, **files: bytes) -> None:
    """Put other files into a checkpoint, with right checksums, as somebody would who wants to be trusted."""
    state = json.loads((folder / "state.json").read_text())
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
        state["files"][name] = sha256(content)
    state["sha256"] = sha256_of_json({"state": state["state"], "files": state["files"]})
    (folder / "state.json").write_text(json.dumps(state, indent=1))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"\xff" * 40, r"model\.safetensors is no file of a checkpoint"),
        ("assets.json", b"[" * 9000, r"assets\.json is no file of a checkpoint"),
        ("../other.json", b"{}", r"state\.json names '\.\./other\.json', which is no file of a checkpoint"),
        ("code.py", b"import os", r"state\.json names 'code\.py', which is no file of a checkpoint"),
        ("model.pkl", b"cos\nsystem\n", r"state\.json names 'model\.pkl', which is no file of a checkpoint"),
    ],
)
def test_right_checksums_over_something_else_are_refused(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    save(tmp_path / "last", 1)
    resealed(tmp_path / "last", **{name: content})
    with pytest.raises(RunError, match=message):
        checkpoint.load(tmp_path / "last")


def copy_folders(patch: pytest.MonkeyPatch) -> None:
    """From now on no folder can be renamed, as one of a lower layer of an overlay, which a container has."""
    rename = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.is_dir():
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), str(path))
        return rename(path, target)

    patch.setattr(Path, "rename", refuse)


def test_where_no_folder_can_be_renamed_it_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "last"
    save(folder, 1)
    copy_folders(monkeypatch)
    save(folder, 2)
    save(folder, 3)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["last", "last.previous"]
    assert [checkpoint.read(place).state["step"] for place in (folder, tmp_path / "last.previous")] == [3, 2]
    hurt(folder / "state.json", "flip")
    taken, _ = checkpoint.load(folder)
    checkpoint.promote(taken, folder)
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
    assert checkpoint.read(folder).state["step"] == 2


@pytest.mark.sweep(6)
@pytest.mark.parametrize("number", range(1, 70))
def test_a_kill_while_a_folder_is_copied_loses_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    folder = tmp_path / "last"
    save(folder, 1)
    save(folder, 2)

    def killed() -> None:
        copy_folders(monkeypatch)
        kill_at(number, tmp_path)
        save(folder, 3)

    assert in_a_child(killed) in (0, 9)
    assert checkpoint.load(folder)[0].state["step"] in (2, 3)
    copy_folders(monkeypatch)
    save(folder, 4)
    assert checkpoint.load(folder)[0].state["step"] == 4


SHAPES = {
    "a number": torch.tensor(7),
    "none": torch.zeros(0, 3),
    "odd": torch.arange(63).view(7, 3, 3),
    "transposed": torch.arange(6).view(2, 3).T,
    "every second": torch.arange(14)[::2],
    "expanded": torch.arange(3).expand(2, 3),
    "channels last": torch.arange(24).view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last),
    "learned": nn.Parameter(torch.arange(3.0)),
}


def test_files_of_tensors_are_those_of_safetensors(tmp_path: Path) -> None:
    tensors = {f"{dtype} {name}": x.detach().to(dtype) for name, x in SHAPES.items() for dtype in checkpoint.DTYPES}
    checkpoint.save(tmp_path / "last", {"model": tensors, "carry": {}}, {})
    content = (tmp_path / "last/model.safetensors").read_bytes()
    for found in (checkpoint.read(tmp_path / "last").parts["model"], load(content)):
        assert set(found) == set(tensors)
        for name, x in found.items():
            assert (x.dtype, x.shape) == (tensors[name].dtype, tensors[name].shape)
            assert torch.equal(bytes_of(x), bytes_of(tensors[name])), name
    assert len(content) == len(write(tensors))
    # As they are mapped by other programs: each begins at a multiple of its width.
    length = int.from_bytes(content[:8], "little")
    for name, entry in json.loads(content[8 : 8 + length]).items():
        assert (8 + length + entry["data_offsets"][0]) % tensors[name].itemsize == 0


def bytes_of(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view(-1).view(torch.uint8)


def write(tensors: dict[str, torch.Tensor]) -> bytes:
    """As safetensors writes them."""
    return save_tensors({name: x.contiguous() for name, x in tensors.items()})


def test_a_snapshot_is_of_the_moment_in_which_it_was_taken(tmp_path: Path) -> None:
    weight, state = nn.Parameter(torch.zeros(5)), {"step": 1}
    taken = checkpoint.snapshot(tmp_path / "last", {"model": {"weight": weight}}, state)
    with torch.no_grad():
        weight.fill_(1)
    state["step"] = 2
    taken.save()
    found = checkpoint.read(tmp_path / "last")
    assert (found.parts["model"]["weight"].tolist(), found.state) == ([0] * 5, {"step": 1})


def test_a_tensor_that_no_file_holds_is_refused_by_name(tmp_path: Path) -> None:
    parts = {"model": {"fine": torch.zeros(1), "weight": torch.zeros(2, dtype=torch.complex128)}}
    with pytest.raises(RunError, match=r"weight is of torch.complex128, which no checkpoint holds"):
        checkpoint.save(tmp_path / "last", parts, {})
    assert not (tmp_path / "last").exists()


def test_a_run_that_was_moved_is_not_begun_anew_in_its_old_place(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    save(tmp_path / "run" / "last", 1)
    (tmp_path / "run").rename(tmp_path / "moved")
    with pytest.raises(DiskError, match=rf"last cannot be written: {tmp_path / 'run'} is gone\. Bring it back, or if"):
        save(tmp_path / "run" / "last", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["moved"]

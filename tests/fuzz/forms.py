"""Small good data for every task, in every form that its loader reads."""

import gzip
import io
import pickle
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests import needs
from tests.fuzz.mutations import Tree
from tests.tasks.graphs.data.test_mutated import dense_arrays, npy_bytes, npz_bytes, planetoid_parts, sparse_arrays

from porism.runs.recipe import Recipe, override
from porism.tasks import find

image = needs.lazy("PIL.Image")
soundfile = needs.lazy("soundfile")

SMALL: Mapping[str, tuple[str, list[str]]] = {
    "language": ("elman", ["batch_size=2", "seq_len=3"]),
    "words": ("full", ["vector_size=8", "batch_size=50", "min_count=1", "validation_split=0.2"]),
    "images": ("grid-4", ["batch_size=4"]),
    "graphs": ("gcn", []),
    "speech": ("joint", ["hidden_size=8", "num_heads=2", "dim_feedforward=8", "num_layers=1", "batch_size=2"]),
    "sentiment": ("attention", ["hidden_size=8", "num_layers=1", "batch_size=4"]),
    "supervised": ("mlp", ["hidden_size=8", "batch_size=4"]),
}
"""For each task a recipe, and what makes it small."""
WORDS = ("the", "cat", "sees", "a", "dog", "and", "it", "is", "not", "bad", "good", "very")


@dataclass(frozen=True)
class Form:
    """One form of a task's data. source: the file that is named, a dot for the folder itself."""

    task: str
    files: Tree
    source: str = "."
    arrays: Mapping[str, Any] | None = None
    """What an .npz holds."""
    settings: tuple[str, ...] = ()

    @property
    def recipe(self) -> Recipe:
        name, small = SMALL[self.task]
        return override(find(self.task).recipes[name], [*small, *self.settings])


def lines(count: int, seed: int = 0) -> bytes:
    draw = np.random.default_rng(seed)
    return "".join(" ".join(draw.choice(WORDS, 6)) + "\n" for _ in range(count)).encode()


def texts(task: str, *settings: str) -> dict[str, Form]:
    parts = {f"{split}.txt": lines(count, count) for split, count in (("train", 40), ("valid", 12), ("test", 13))}
    return {
        "file": Form(task, {"a.txt": lines(60)}, "a.txt", settings=settings),
        "gz": Form(task, {"a.txt.gz": gzip.compress(lines(60), mtime=0)}, "a.txt.gz", settings=settings),
        "folder": Form(task, parts, settings=settings),
    }


def language() -> dict[str, Form]:
    made = {name: Form("language", {"a.txt": lines(60)}, "a.txt", settings=(f"tokenizer={name}",)) for name in
            ("whitespace", "characters", "bytes")}  # fmt: skip
    return texts("language") | made


def picture(value: int, kind: str) -> bytes:
    content = io.BytesIO()
    pixels = np.random.default_rng(value).integers(0, 256, (6, 5), dtype=np.uint8)
    image.fromarray(pixels).save(content, kind)
    return content.getvalue()


def idx(array: NDArray[np.uint8]) -> bytes:
    return bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def images() -> dict[str, Form]:
    draw = np.random.default_rng(3)
    kinds = ("PNG", "BMP", "JPEG", "GIF", "TIFF", "WEBP")
    folder = {
        f"{name}/{number:02d}.{kind.lower()}": picture(20 * one + number, kind)
        for one, name in enumerate(("cat", "dog"))
        for number, kind in enumerate(kinds * 2)
    }
    pixels = {count: draw.integers(0, 256, (count, 4, 3), dtype=np.uint8) for count in (20, 7)}
    labels = {count: (np.arange(count) % 3).astype(np.uint8) for count in (20, 7)}
    names = {"train": 20, "t10k": 7}
    four = {f"{name}-images-idx3-ubyte": idx(pixels[count]) for name, count in names.items()}
    four |= {f"{name}-labels-idx1-ubyte": idx(labels[count]) for name, count in names.items()}
    arrays: dict[str, Any] = {}
    for key in ("train", "val", "test"):
        arrays[f"{key}_images"] = draw.integers(0, 256, (6, 4, 4), dtype=np.uint8)
        arrays[f"{key}_labels"] = (np.arange(6) % 2)[:, None]
    return {
        "folder": Form("images", folder),
        "idx": Form("images", four),
        "medmnist": Form("images", {}, "a.npz", arrays),
    }


def graphs() -> dict[str, Form]:
    node_lines = "".join(
        f"n{node},{'red' if node % 2 else 'blue'},{node / 3:.2f},{'abc'[node % 3]}\n" for node in range(12)
    )
    edge_lines = "".join(f"n{node},n{(node + 1) % 12},{1 + node / 7:.3f}\n" for node in range(12))
    tables = {
        "nodes.csv": f"node,label,age,city\n{node_lines}".encode(),
        "edges.csv": f"source,target,weight\n{edge_lines}".encode(),
    }
    planetoid = {f"ind.ring.{part}": pickle.dumps(content, protocol=2) for part, content in planetoid_parts().items()}
    planetoid["ind.ring.test.index"] = b"8\n10\n9\n11\n"
    return {
        "sparse": Form("graphs", {}, "a.npz", sparse_arrays()),
        "dense": Form("graphs", {}, "a.npz", dense_arrays()),
        "tables": Form("graphs", tables),
        "planetoid": Form("graphs", planetoid),
    }


def sound(seed: int, kind: str = "WAV") -> bytes:
    content = io.BytesIO()
    soundfile.write(content, 0.1 * np.random.default_rng(seed).standard_normal(1600), 16_000, format=kind)
    return content.getvalue()


def speech() -> dict[str, Form]:
    said = [" ".join(WORDS[number % 12 : number % 12 + 2]) for number in range(12)]
    kinds = ("WAV", "FLAC", "OGG")
    clips = {f"{number:02d}.{kinds[number % 3].lower()}": sound(number, kinds[number % 3]) for number in range(12)}
    wavs = {f"{number:02d}": sound(number) for number in range(12)}
    listed = "".join(f"{clip}\t{text}\n" for clip, text in zip(clips, said, strict=True)).encode()
    metadata = "".join(f"{name}|{text}|{text}\n" for name, text in zip(wavs, said, strict=True)).encode()
    trans = "".join(f"{name} {text}\n" for name, text in zip(wavs, said, strict=True)).encode()
    an4 = [f"<s> {text} </s> ({name})\n" for name, text in zip(wavs, said, strict=True)]
    return {
        "list": Form("speech", {**clips, "all.tsv": listed}, "all.tsv"),
        "pairs": Form("speech", {f"{name}.wav": clip for name, clip in wavs.items()}
                      | {f"{name}.txt": text.encode() for name, text in zip(wavs, said, strict=True)}),
        "ljspeech": Form("speech", {f"wavs/{name}.wav": clip for name, clip in wavs.items()}
                         | {"metadata.csv": metadata}),
        "librispeech": Form("speech", {f"{name}.wav": clip for name, clip in wavs.items()} | {"a.trans.txt": trans}),
        "an4": Form("speech", {f"wav/{name}.wav": clip for name, clip in wavs.items()}
                    | {"etc/an4_train.transcription": "".join(an4[:9]).encode(),
                       "etc/an4_test.transcription": "".join(an4[9:]).encode()}),
    }  # fmt: skip


def sentiment() -> dict[str, Form]:
    def table(seed: int, mark: str = ",", quote: str = '"') -> bytes:
        rows = [
            f"{quote}{line}{quote}{mark}{1 + number % 5}\n"
            for number, line in enumerate(lines(40, seed).decode().splitlines())
        ]
        return "".join([f"content{mark}score\n", *rows]).encode()

    parts = {f"{split}.csv": table(seed) for seed, split in enumerate(("train", "valid", "test"))}
    return {
        "csv": Form("sentiment", {"a.csv": table(4)}, "a.csv"),
        "tsv": Form("sentiment", {"a.tsv": table(4, "\t", "")}, "a.tsv"),
        "folder": Form("sentiment", parts),
    }


def supervised() -> dict[str, Form]:
    draw = np.random.default_rng(6)
    x, y = draw.normal(size=(30, 3)).round(3), np.arange(30) % 3
    rows = "".join(",".join(map(str, row)) + f",{label}\n" for row, label in zip(x.tolist(), y.tolist(), strict=True))
    named = rows.replace(",0\n", ",red\n").replace(",1\n", ",green\n").replace(",2\n", ",blue\n")
    return {
        "table": Form("supervised", {"a.csv": f"a,b,c,y\n{rows}".encode()}, "a.csv"),
        "names": Form("supervised", {"a.csv": named.encode()}, "a.csv"),
        "numbers": Form("supervised", {"a.csv": rows.encode()}, "a.csv", settings=("loss=mse",)),
        "npz": Form("supervised", {}, "a.npz", {"X": x, "y": y}),
    }


FORMS: dict[str, Callable[[], dict[str, Form]]] = {
    "language": language,
    "words": lambda: texts("words"),
    "images": images,
    "graphs": graphs,
    "speech": speech,
    "sentiment": sentiment,
    "supervised": supervised,
}


def packed(arrays: Mapping[str, Any]) -> bytes:
    """An .npz of arrays."""
    return npz_bytes({name: npy_bytes(array) for name, array in arrays.items()})

"""Torch's largest library, linked while the words of a command are read.

To link it takes a fifth of what `import torch` takes, and none of Python's locks: a second core does it meanwhile. Only
a module in C that is imported at the same time waits, since the system links one library after the other.
"""

import ctypes
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

NEED_TORCH = ("train", "compare", "sweep", "evaluate", "predict")
"""What cannot do without torch."""
HELP = {"-h", "--help"}


def begin_linking(verb: str, words: list[str]) -> Thread | None:
    """Start it where the command will import torch; `import torch` waits for what is still to be linked."""
    if verb not in NEED_TORCH or HELP & {*words} or "torch" in sys.modules or sys.platform != "linux":
        return None
    linking = Thread(target=_link)
    linking.start()
    return linking


def _link() -> None:
    spec = find_spec("torch")
    for folder in spec.submodule_search_locations or () if spec else ():
        libraries = Path(folder) / "lib"
        # A build for CUDA has libraries of other packages, which torch itself knows how to find.
        if (libraries / "libtorch_cuda.so").exists():
            continue
        # In torch's own order. Where it fails, `import torch` says why.
        with suppress(OSError):
            ctypes.CDLL(str(libraries / "libtorch_global_deps.so"), mode=ctypes.RTLD_GLOBAL)
            ctypes.CDLL(str(libraries / "libtorch_cpu.so"))

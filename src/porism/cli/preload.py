"""Torch's largest library, linked while the words of a command are read.

To link it takes a fifth of what `import torch` takes, and none of Python's locks: a second core does it meanwhile. Only
a module in C that is imported at the same time waits, since the system links one library after the other, and it keeps
Python's lock while it waits. So those that a command needs on its way to torch are imported before.
"""

import ctypes
import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

NEED_TORCH = ("train", "compare", "sweep", "evaluate", "predict")
"""What cannot do without torch."""
HELP = {"-h", "--help"}
WITH_MODULES_IN_C = ("asyncio", "csv", "decimal", "msgspec", "numpy", "statistics", "uuid")
"""What those commands import before torch, or torch itself."""


def begin_linking(verb: str, words: list[str]) -> Thread | None:
    """Start it where the command will import torch; `import torch` waits for what is still to be linked."""
    if verb not in NEED_TORCH or HELP & {*words} or "torch" in sys.modules or sys.platform != "linux":
        return None
    for module in WITH_MODULES_IN_C:
        import_module(module)
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
        with suppress(AttributeError):  # where Python is linked without it
            # As any function of C it is called without Python's lock, which ctypes.CDLL(path) keeps.
            dlopen = ctypes.CDLL(None).dlopen
            dlopen.restype = ctypes.c_void_p
            # In torch's own order. Where it fails, `import torch` says why.
            dlopen(bytes(libraries / "libtorch_global_deps.so"), os.RTLD_NOW | os.RTLD_GLOBAL)
            dlopen(bytes(libraries / "libtorch_cpu.so"), os.RTLD_NOW | os.RTLD_LOCAL)

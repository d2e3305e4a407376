"""A PostgreSQL server of Debian's package in a temporary folder, for as long as it is needed."""

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def programs() -> Path | None:
    """The folder of the newest server that is installed; None where there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: float(path.parts[-3]))
    return found[-1].parent if found else None


@contextmanager
def server() -> Iterator[str]:
    """The URL of a database that is gone afterwards. It listens at a socket in its folder, at no port."""
    binaries = programs()
    assert binaries is not None
    root = os.geteuid() == 0
    # A server refuses to run as root.
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if root else []
    user = "postgres" if root else getpass.getuser()
    folder = Path(tempfile.mkdtemp(prefix="porism-pg-"))
    try:
        if root:
            shutil.chown(folder, "postgres", "postgres")
        data = folder / "data"

        def run(program: str, *words: str) -> None:
            command = [*as_user, str(binaries / program), "-D", str(data), *words]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

        run("initdb", "--auth=trust", f"--username={user}", "--no-sync", "--encoding=UTF8", "--locale=C")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            yield f"postgresql://{user}@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-w", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)

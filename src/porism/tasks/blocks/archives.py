"""Archives of folders: unpacked aside and renamed, never out of their folder, never to more bytes than they should."""

import lzma
import tarfile
import tempfile
import zlib
from pathlib import Path

from porism.errors import DataError, one_line


def unpack_folder(archive: Path, folder: Path, most: int) -> None:
    """Unpack a .tar, plain or compressed, that holds one folder of this name. most: bytes of all its files.

    An interrupted unpacking leaves no folder of that name, and neither does an archive that is refused.
    """
    taken = 0

    def limited(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo:
        nonlocal taken
        taken += member.size
        if taken > most:
            raise DataError(f"{archive}: unpacks to more than {most:,} bytes, which it should not. Get it again.")
        # Refuses what leads out of the folder, devices, and links to elsewhere.
        return tarfile.data_filter(member, path)

    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as opened, tempfile.TemporaryDirectory(dir=folder.parent) as part:
            opened.extractall(part, filter=limited)
            unpacked = Path(part) / folder.name
            if not unpacked.is_dir():
                raise DataError(f"{archive}: no folder {folder.name} in it. Get it again.")
            unpacked.rename(folder)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise DataError(f"{archive}: not a whole archive of files ({one_line(error)}). Get it again.") from None
    except OSError as error:
        if not folder.is_dir():  # else another process was faster
            raise DataError(
                f"{archive}: cannot be unpacked to {folder} ({error.strerror or error}). Make room, or set PORISM_DATA "
                "to a folder of yours."
            ) from None

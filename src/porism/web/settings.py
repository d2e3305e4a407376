"""What `porism serve` was started with."""

from dataclasses import dataclass
from pathlib import Path

LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class ServerSettings:
    """Where runs lie, what may be imported, and who may ask.

    allowed: modules of the user's own that may be costed, as `--allow` names them.
    token: what every request must bring as a cookie; None where the loopback alone is open to all on this machine.
    """

    runs: Path = Path("runs")
    allowed: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 8765
    token: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.host in LOOPBACK

    @property
    def address(self) -> str:
        """The link to open, with the token where there is one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/" + (f"?token={self.token}" if self.token else "")

"""`python -m examples.points.check` puts the task through every check there is."""

from pathlib import Path
from tempfile import TemporaryDirectory

from examples.points.task import Points
from porism.testing import CheckReport, check_task


def check() -> CheckReport:
    """The contract of a task, with a file whose third line is no point."""
    with TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.csv"
        bad.write_text("0.5,1,upper\n1,-0.5,lower\n1;2;upper\n")
        return check_task(Points, inputs=["0,1", "1,-0.5"], bad_data={str(bad): f"{bad}, line 3"})


if __name__ == "__main__":
    print(check())

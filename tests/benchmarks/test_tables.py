import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]


def test_the_tables_people_read_are_what_the_results_say() -> None:
    command = [sys.executable, str(REPOSITORY / "benchmarks/tables.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

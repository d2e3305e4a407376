"""What is trained here is what the tests of training train, and what is written is what those of reports write."""

from tests.report.conftest import write_run as write_run
from tests.training.conftest import task as task
from tests.training.conftest import text as text
from tests.training.conftest import tiny as tiny

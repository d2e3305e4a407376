"""What is trained here is what the tests of training train."""

from tests.training.conftest import task as task
from tests.training.conftest import text as text
from tests.training.conftest import tiny as tiny

from collections.abc import Iterator

import pytest
from tests.fuzz.cases import Fuzz, limited_memory


@pytest.fixture(scope="session")
def fuzz(pytestconfig: pytest.Config) -> Fuzz:
    return Fuzz(pytestconfig.option.seed, pytestconfig.option.share if pytestconfig.option.whole else 0.0)


@pytest.fixture(autouse=True)
def _limits() -> Iterator[None]:
    with limited_memory():
        yield

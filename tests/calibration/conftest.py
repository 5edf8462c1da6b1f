"""How well simulations answer is what these tests are about."""

import pytest


@pytest.fixture(autouse=True)
def as_shipped(as_shipped):
    return as_shipped

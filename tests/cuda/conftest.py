"""A GPU for tests: the kernels' own source, run on the processor; or a real one, if asked for."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import emulated

from decbayes import devices


@pytest.fixture
def gpu(monkeypatch):
    """The device that `device="cuda"` means. DECBAYES_TEST_GPU=1 takes the machine's own."""
    if os.environ.get("DECBAYES_TEST_GPU"):
        return devices.gpu()
    if emulated.COMPILER is None:
        pytest.skip("no C++ compiler")
    device = emulated.EmulatedDevice()
    monkeypatch.setattr(devices, "gpu", lambda: device)
    return device

"""`--device`: where a command works."""

import warnings
from typing import Annotated

from cyclopts import Parameter

from decbayes.cli.terminal import messages
from decbayes.devices import DeviceName, device_for, use_device

Device = Annotated[DeviceName | None, Parameter(help="Where to work: cpu, cuda (a GPU), or auto.", show_default=False)]


def available(device: DeviceName) -> DeviceName:
    """What "auto" means here; where there is no GPU, a line says so."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = device_for(device)
    for warning in told:
        messages().print(str(warning.message))
    return "cpu" if found is None else "cuda"


def work_on(device: DeviceName | None) -> None:
    """From here on, for as long as the command runs."""
    if device is not None:
        use_device(available(device))

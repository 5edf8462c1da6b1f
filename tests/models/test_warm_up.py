"""After a warm-up nothing is left to compile."""

from importlib import import_module
from importlib.resources import files

import numpy as np
import pytest
from zoo import ZOO

import decbayes as db
from decbayes.cli.commands.planning.warm_up import models, use, warm_up

KERNELS = [
    import_module(f"decbayes.kernels.{file.name.removesuffix('.py')}")
    for file in files("decbayes.kernels").iterdir()
    if file.name.endswith(".py") and not file.name.startswith("_")
]


def compiled():
    """Every kernel that Python calls, with the types that it has been compiled for."""
    found = {}
    for module in KERNELS:
        for name, kernel in vars(module).items():
            if hasattr(kernel, "nopython_signatures"):
                found[name] = set(map(str, kernel.nopython_signatures))
    return found


@pytest.fixture(scope="module")
def warm():
    for model, size in models():
        use(model, size)
    return compiled()


@pytest.mark.parametrize("kind", ["full", "classes", "topics", "topics, prior learned", "features", "states"])
def test_fits_and_merges_compile_nothing_more(kind, warm, rng):
    model, size = ZOO[kind]
    shards = [db.simulate(model, size, rng=rng).data for _ in range(3)]
    merged = db.merge([model.fit(shard, rng=np.random.default_rng(0)).posterior for shard in shards])
    model.score(merged, shards[0])
    assert compiled() == warm


def test_it_says_what_it_does(monkeypatch, capsys):
    used = []
    monkeypatch.setattr("decbayes.cli.commands.planning.warm_up.use", lambda model, size: used.append(type(model)))
    warm_up()
    assert len(used) == len(list(models()))
    assert "Done after" in capsys.readouterr().err

"""A library that is not installed is named, with what to type to get it."""

import sys

import numpy as np
import pytest

import decbayes as db
from decbayes.base.extras import require
from decbayes.errors import MissingExtra


@pytest.mark.parametrize(
    ("module", "extra", "task"),
    [
        ("gensim.models", "gensim", lambda posterior: db.interop.to_gensim(posterior)),
        ("sklearn.decomposition", "interop", lambda posterior: db.interop.to_sklearn(posterior)),
        ("arviz_base", "interop", lambda posterior: db.interop.to_arviz(posterior, rng=np.random.default_rng(0))),
        ("numpyro", "numpyro", lambda posterior: db.interop.from_numpyro(print, print, {})),
        ("matplotlib.figure", "plot", lambda posterior: db.plot.topics(posterior)),
    ],
)
def test_the_error_says_which_extra_to_install(module, extra, task, monkeypatch):
    # None in sys.modules is how Python marks a module that cannot be imported.
    monkeypatch.setitem(sys.modules, module, None)
    posterior = db.Posterior.of_prior(db.LatentDirichletAllocation(2, ("pear", "plum")).structure)
    with pytest.raises(MissingExtra, match=rf"pip install 'decbayes\[{extra}\]'"):
        task(posterior)


def test_it_is_an_import_error_too():
    with pytest.raises(ImportError, match="Magic needs nonsense_library, not installed yet"):
        require("nonsense_library.part", extra="magic", task="Magic")


def test_a_broken_library_is_not_called_missing(tmp_path, monkeypatch):
    (tmp_path / "broken_library.py").write_text("import nonsense_dependency\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="nonsense_dependency") as raised:
        require("broken_library", extra="magic", task="Magic")
    assert not isinstance(raised.value, MissingExtra)

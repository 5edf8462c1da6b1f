"""A family from outside the package is one class and one registration."""

from dataclasses import dataclass

import numpy as np
import pytest
from damage import unhashed
from draws import ALL, natural
from own_family import InverseGamma
from structures import draw, relabel, single

import decbayes as db
from decbayes.errors import InvalidFile, InvalidStructure
from decbayes.families import FAMILIES, Gamma, register
from decbayes.files import from_bytes, to_bytes


def test_all_laws_run_over_it():
    """Those that are parametrized with `ALL`: families, totals, files, solvers, merges."""
    assert "InverseGamma" in ALL


def test_it_is_fitted_saved_loaded_and_merged_like_any_other(rng, tmp_path):
    """Variances of two kinds of noise at three sites, whose merge is the conjugate posterior of all data."""
    prior = InverseGamma().natural(shape=np.full((2, 1), 2.0), scale=np.ones((2, 1)))
    structure = db.extending.Structure(
        {"variance": InverseGamma()}, {"variance": prior}, (db.extending.CoupledSet(("variance",)),)
    )
    noise = [rng.normal(0.0, [0.1, 5.0], size=(40, 2)) for _ in range(3)]
    paths = [tmp_path / f"{site}.posterior" for site in range(3)]
    for path, values, order in zip(paths, noise, ([0, 1], [1, 0], [0, 1]), strict=True):
        squares = (values**2).sum(axis=0)[order]
        added = np.column_stack([np.full(2, -0.5 * len(values)), -0.5 * squares])
        db.save(db.Posterior(structure, {"variance": added}), path)
    merged = db.merge([db.load(path) for path in paths])
    usual = merged.parameters("variance")
    everything = np.concatenate(noise)
    order = np.argsort(merged.mean("variance")[:, 0])
    np.testing.assert_allclose(usual["shape"][order, 0], 2.0 + 60.0)
    np.testing.assert_allclose(usual["scale"][order, 0], 1.0 + 0.5 * (everything**2).sum(axis=0))
    db.save(merged, paths[0])
    assert db.load(paths[0]) == merged


def test_labels_cannot_tell_its_sites_apart(rng):
    """Slots are named by one of them; what they hold is the same to the last bit."""
    posterior = draw(single("InverseGamma", 3, 2), rng)
    others = (relabel(posterior, rng), posterior)
    found, expected = (db.merge([posterior, other], duplicates="allow") for other in others)
    rows, those = (sorted(each.contribution["factor"].tolist()) for each in (found, expected))
    assert rows == those


@dataclass(frozen=True)
class Unknown(Gamma):
    """Nobody has registered it."""


def test_what_could_not_be_read_again_is_not_written(rng, tmp_path):
    structure = db.extending.Structure({"rates": Unknown()}, {"rates": natural("Gamma", rng)})
    posterior = db.Posterior.of_prior(structure)
    with pytest.raises(InvalidStructure, match=r"'rates' is Unknown, .* `decbayes.families.register\(Unknown\(\)\)`"):
        db.save(posterior, tmp_path / "a.posterior")
    assert list(tmp_path.iterdir()) == []
    assert db.merging.product([posterior, posterior]) == posterior


def test_a_file_with_an_unknown_family_says_what_to_do(rng):
    content = unhashed(to_bytes(draw(single("InverseGamma", 2, 1), rng)))
    with pytest.raises(
        InvalidFile, match=r"the family 'InverseGamna' is not registered here; call `decbayes.families.register`"
    ):
        from_bytes(content.replace(b"InverseGamma", b"InverseGamna"))


def test_a_name_belongs_to_one_class():
    @dataclass(frozen=True)
    class Gamma(InverseGamma):
        pass

    with pytest.raises(ValueError, match=r"already a family Gamma, of decbayes\.families\.gamma"):
        register(Gamma())
    for wrong in (Gamma, "Gamma", None):
        with pytest.raises(TypeError, match="such as Gamma"):
            register(wrong)
    register(InverseGamma())
    assert FAMILIES["InverseGamma"] == InverseGamma()
    with pytest.raises(TypeError):
        FAMILIES["Gamma"] = InverseGamma()

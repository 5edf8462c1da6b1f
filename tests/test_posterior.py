"""Structures and posteriors are values: immutable, compared by content, checked when made."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
from draws import ALL
from scipy.sparse import csr_array, issparse
from structures import draw, everything, mixture, single, topics

import decbayes as db
from decbayes.errors import InvalidPosterior, InvalidStructure, OutOfDomain
from decbayes.families import FAMILIES, Beta, Dirichlet, IsotropicGaussian, Weights


class TestStructure:
    def test_fingerprint_depends_on_everything_agreed(self):
        base = everything()
        variants = [
            base,
            base.with_prior({**base.prior, "offset": base.prior["offset"] * 2}),
            dataclasses.replace(base, labels={"topics": tuple("bbcdefghijkl")}),
            dataclasses.replace(base, symmetry=base.symmetry[:1]),
            dataclasses.replace(base, sparse=frozenset()),
            dataclasses.replace(base, model={"name": "another"}),
        ]
        assert len({variant.fingerprint for variant in variants}) == len(variants)

    @pytest.mark.parametrize(
        ("family", "one", "other"),
        [
            (Dirichlet(), ([[2.0, 3.0], [2.0, 3.0]], [[1.0]]), ([[2.0, 2.0], [3.0, 3.0]], [[1.0]])),
            (Weights(), ([2.0, 2.0], [3.0, 4.0]), ([2.0, 3.0], [4.0, 4.0])),
        ],
        ids=["rows and columns", "where one prior ends"],
    )
    def test_fingerprint_tells_apart_priors_with_the_same_distinct_numbers(self, family, one, other):
        structures = [
            db.extending.Structure(
                {"first": family, "second": family},
                {name: family.natural(alpha=alpha) for name, alpha in zip(("first", "second"), alphas, strict=True)},
            )
            for alphas in (one, other)
        ]
        assert structures[0] != structures[1]

    def test_fingerprint_does_not_depend_on_the_order_of_writing(self):
        base = everything()
        turned = db.extending.Structure(
            dict(reversed(base.families.items())),
            dict(reversed(base.prior.items())),
            tuple(reversed(base.symmetry)),
            base.labels,
            base.sparse,
            base.model,
        )
        assert turned.fingerprint == base.fingerprint
        assert turned == base
        assert hash(turned) == hash(base)

    def test_fingerprint_is_the_same_on_every_machine(self):
        assert mixture(3).fingerprint == "782fc41d8ed8fd5a89e768c5b84b69e9938d7e4b33389f3ba18d965c5256b4fb"

    def test_a_constant_prior_is_stored_once(self):
        prior = topics(20, 5000).prior["topics"]
        assert prior.shape == (20, 5000)
        assert prior.strides == (0, 0)

    @pytest.mark.parametrize("copied", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy])
    def test_copies_for_other_processes_are_equal_and_as_small(self, copied):
        structure = copied(topics(2, 5000))
        assert structure == topics(2, 5000)
        assert structure.prior["topics"].strides == (0, 0)
        assert len(pickle.dumps(structure.prior["topics"])) > len(pickle.dumps(structure))

    @pytest.mark.parametrize("setting", [np.int64(3), np.nan, {1, 2}, np.ones(2), "\ud800"])
    def test_settings_that_have_no_canonical_bytes_are_refused(self, setting):
        with pytest.raises(InvalidStructure, match="settings"):
            db.extending.Structure({"a": Weights()}, {"a": [[1.0]]}, model={"name": "mine", "variance": setting})

    def test_nothing_can_be_changed(self):
        structure = mixture(2)
        with pytest.raises(dataclasses.FrozenInstanceError):
            structure.sparse = frozenset()
        with pytest.raises(TypeError):
            structure.families["other"] = Beta()
        with pytest.raises(ValueError, match="read-only"):
            structure.prior["means"][0, 0] = 1.0

    @pytest.mark.parametrize(
        ("families", "prior", "symmetry", "reason"),
        [
            ({}, {}, (), "one family"),
            ({"a": Beta()}, {"b": [[0.0, 0.0]]}, (), "one family"),
            ({"a": Beta()}, {"a": [[0.0, 0.0, 0.0]]}, (), "2 columns per dimension"),
            ({"a": Beta()}, {"a": [[-2.0, 0.0]]}, (), "outside the domain"),
            ({"a": Beta()}, {"a": [[np.nan, 0.0]]}, (), "outside the domain"),
            ({"a": Beta()}, {"a": np.zeros((0, 2))}, (), "shape"),
            ({"a": Beta()}, {"a": [[0.0, 0.0]]}, (db.extending.CoupledSet(("b",)),), "do not exist"),
            (
                {"a": Beta()},
                {"a": [[0.0, 0.0]]},
                (db.extending.CoupledSet(("a",)), db.extending.CoupledSet(("a",))),
                "disjoint",
            ),
            ({"a": Beta()}, {"a": [[0.0, 0.0]]}, (db.extending.CoupledSet(()),), "not empty"),
            (
                {"a": Beta(), "w": Weights()},
                {"a": np.zeros((2, 2)), "w": np.zeros((3, 1))},
                (db.extending.CoupledSet(("a", "w")),),
                "equally many",
            ),
        ],
    )
    def test_contradictions_are_refused(self, families, prior, symmetry, reason):
        with pytest.raises(InvalidStructure, match=reason):
            db.extending.Structure(families, prior, symmetry)

    def test_labels_and_sparse_factors_must_fit(self):
        families, prior = {"topics": Dirichlet()}, {"topics": np.zeros((2, 3))}
        with pytest.raises(InvalidStructure, match="3 dimensions and 2 labels"):
            db.extending.Structure(families, prior, labels={"topics": ("a", "b")})
        with pytest.raises(InvalidStructure, match="do not exist"):
            db.extending.Structure(families, prior, sparse={"words"})

    @pytest.mark.parametrize("name", ALL)
    def test_every_factor_has_one_label_per_dimension(self, name):
        structure = single(name, 2, 2)
        dimension = FAMILIES[name].dimension(structure.prior["factor"].shape[1])
        labels = {"factor": tuple("abcde"[:dimension])}
        assert dataclasses.replace(structure, labels=labels).labels == labels
        for wrong in ((), ("a", "b", "c")):
            with pytest.raises(InvalidStructure, match=f"has {dimension} dimensions and {len(wrong)} labels"):
                dataclasses.replace(structure, labels={"factor": wrong})


class TestPosterior:
    def test_equality_is_by_value(self, rng):
        posterior = draw(everything(), rng)
        again = db.Posterior(everything(), dict(posterior.contribution))
        assert again == posterior
        assert hash(again) == hash(posterior)
        assert draw(everything(), rng) != posterior
        assert posterior != "something else"

    def test_sparse_or_dense_input_makes_no_difference(self, rng):
        posterior = draw(everything(), rng)
        dense = {n: c.toarray() if issparse(c) else c for n, c in posterior.contribution.items()}
        sparse = {n: csr_array(c) for n, c in dense.items()}
        assert db.Posterior(everything(), dense) == db.Posterior(everything(), sparse) == posterior
        assert issparse(db.Posterior(everything(), dense).contribution["topics"])
        assert not issparse(db.Posterior(everything(), sparse).contribution["means"])

    def test_negative_zero_is_zero(self):
        structure = mixture(1)
        parts = {"means": np.array([[0.0, -1.0]]), "weights": np.array([[0.0]])}
        turned = {"means": np.array([[-0.0, -1.0]]), "weights": np.array([[-0.0]])}
        assert db.Posterior(structure, parts) == db.Posterior(structure, turned)

    def test_contributions_are_copied_and_read_only(self, rng):
        structure = mixture(2)
        parts = {name: np.array(part) for name, part in draw(structure, rng).contribution.items()}
        posterior = db.Posterior(structure, parts)
        digest = posterior.digest
        parts["means"][0, 0] += 1.0
        assert db.Posterior(structure, dict(posterior.contribution)).digest == digest
        with pytest.raises(ValueError, match="read-only"):
            posterior.contribution["means"][0, 0] = 1.0
        sparse = draw(topics(2, 6), rng)
        with pytest.raises(ValueError, match="read-only"):
            sparse.contribution["topics"].data[0] = 1.0

    def test_natural_is_prior_plus_contribution(self, rng):
        posterior = draw(everything(), rng)
        for name in everything().families:
            part = posterior.contribution[name]
            expected = everything().prior[name] + (part.toarray() if issparse(part) else part)
            np.testing.assert_array_equal(posterior.natural[name], expected)
        assert set(posterior.natural) == set(everything().families)
        assert db.Posterior.from_natural(everything(), posterior.natural).natural["means"] == pytest.approx(
            posterior.natural["means"]
        )
        with pytest.raises(KeyError, match="there are"):
            _ = posterior.natural["nonsense"]

    def test_the_posterior_of_no_data_is_the_prior(self):
        posterior = db.Posterior.of_prior(everything())
        for name, prior in everything().prior.items():
            np.testing.assert_array_equal(posterior.natural[name], prior)

    def test_mean_and_sample_are_in_the_users_terms(self, rng):
        structure = mixture(2)
        natural = {
            "means": IsotropicGaussian().natural(mean=[[1.0], [-2.0]], variance=0.5),
            "weights": Weights().natural(alpha=[3.0, 1.0]),
        }
        posterior = db.Posterior.from_natural(structure, natural)
        np.testing.assert_allclose(posterior.mean("means"), [[1.0], [-2.0]])
        np.testing.assert_allclose(posterior.mean("weights"), [0.75, 0.25])
        np.testing.assert_allclose(posterior.parameters("means")["variance"], 0.5)
        draws = posterior.sample(7, rng)
        assert draws["means"].shape == (7, 2, 1)
        assert draws["weights"].shape == (7, 2)

    def test_copies_for_other_processes_are_equal(self, rng):
        structure = everything()
        posteriors = [draw(structure, rng) for _ in range(2)]
        sent = pickle.loads(pickle.dumps(posteriors))
        assert sent == posteriors
        assert sent[0].structure is sent[1].structure
        assert db.merge(sent) == db.merge(posteriors)

    def test_repr_says_what_it_is(self, rng):
        text = repr(draw(topics(4, 1200), rng))
        assert "topics: Dirichlet 4 × 1,200" in text
        assert "% non-zero" in text
        assert topics(4, 1200).fingerprint[:12] in text

    @pytest.mark.parametrize(
        ("change", "error", "reason"),
        [
            ({"means": np.zeros((3, 2))}, InvalidPosterior, r"3 × 2, the structure says 2 × 2\.$"),
            ({"means": np.array([[0.0, np.nan], [0.0, 0.0]])}, InvalidPosterior, "NaN"),
            ({"means": np.array([[0.0, 0.0], [0.0, np.inf]])}, InvalidPosterior, "infinite"),
            ({"means": np.array([[0.0, 0.0], [0.0, 0.3]])}, OutOfDomain, "'means'.*component 1"),
            ({"weights": np.array([[-1.0], [0.0]])}, OutOfDomain, "'weights'.*component 0"),
            ({"extra": np.zeros((2, 2))}, InvalidPosterior, "factors"),
        ],
    )
    def test_bad_contributions_are_refused(self, change, error, reason, rng):
        structure = mixture(2)
        with pytest.raises(error, match=reason):
            db.Posterior(structure, {**draw(structure, rng).contribution, **change})

    def test_missing_factors_are_named(self):
        with pytest.raises(InvalidPosterior, match="weights"):
            db.Posterior.from_natural(mixture(2), {"means": mixture(2).prior["means"]})
        with pytest.raises(InvalidPosterior, match="3 × 2, the structure says 2 × 2"):
            db.Posterior.from_natural(mixture(2), mixture(3).prior)


def test_a_summary_has_mean_and_deviation_of_every_quantity(rng):
    """Against the closed forms of a Normal-Gamma, and with the labels of its dimensions."""
    structure = dataclasses.replace(single("NormalGamma", 2, 2), labels={"factor": ("height", "weight")})
    posterior = draw(structure, rng)
    m, kappa, a, b = (posterior.parameters("factor")[name] for name in ("mean", "strength", "shape", "rate"))
    expected = {"mean": (m, np.sqrt(b / (kappa * (a - 1)))), "precision": (a / b, np.sqrt(a) / b)}
    rows = posterior.summary()
    assert [row["quantity"] for row in rows] == ["mean"] * 4 + ["precision"] * 4
    for row in rows:
        place = row["component"], ("height", "weight").index(row["entry"])
        for number, values in zip((row["mean"], row["deviation"]), expected[row["quantity"]], strict=True):
            assert number == pytest.approx(values[place])
        assert row["lower"] == posterior.interval("factor", quantity=row["quantity"]).lower[place]
    plain = draw(single("Gamma", 2, 1), rng).summary()
    assert [(row["quantity"], row["entry"]) for row in plain] == [("value", "0")] * 2


def test_an_interval_holds_so_much_of_the_samples_in_the_shape_of_the_mean(rng):
    posterior = draw(single("NormalGamma", 2, 3), rng)
    drawn = posterior.sample(20_000, rng)["factor"]
    for level in (0.5, 0.9):
        for quantity in ("mean", "precision"):
            lower, upper = posterior.interval("factor", level, quantity)
            values = getattr(drawn, quantity)
            assert lower.shape == posterior.mean("factor", quantity).shape
            # 20,000 draws: 0.0035 at most, four times.
            np.testing.assert_allclose(((lower < values) & (values < upper)).mean(axis=0), level, atol=0.014)
            np.testing.assert_allclose((values < lower).mean(axis=0), 0.5 - 0.5 * level, atol=0.014)
    np.testing.assert_array_equal(posterior.deviation("factor", "precision"), drawn_deviation(posterior))
    assert posterior.uncertainty == "mean-field, not calibrated"


def drawn_deviation(posterior):
    usual = posterior.parameters("factor")
    return np.sqrt(usual["shape"]) / usual["rate"]


@pytest.mark.parametrize("level", [0.0, 1.0, 90, "0.9", None])
def test_the_level_of_an_interval_is_a_probability(level, rng):
    with pytest.raises(ValueError, match="between 0 and 1"):
        draw(single("Gamma", 2, 1), rng).interval("factor", level)


def test_a_component_is_untouched_if_no_factor_has_evidence_for_it():
    structure = mixture(4)
    means, weights = np.zeros((4, 2)), np.array([[0.0], [2.0], [0.0], [0.0]])
    means[2, 0] = 1e-9  # a trace counts
    posterior = db.Posterior(structure, {"means": means, "weights": weights})
    np.testing.assert_array_equal(posterior.untouched(structure.symmetry[0]), [True, False, False, True])


def test_each_quantity_of_a_factor_is_read_by_its_name(rng):
    posterior = draw(single("NormalGamma", 2, 3), rng)
    usual = posterior.parameters("factor")
    assert posterior.quantities("factor") == ("mean", "precision")
    np.testing.assert_array_equal(posterior.mean("factor"), usual["mean"])
    np.testing.assert_array_equal(posterior.mean("factor", "precision"), usual["shape"] / usual["rate"])
    with pytest.raises(KeyError, match="no quantity 'variance'; it has mean, precision"):
        posterior.mean("factor", "variance")
    with pytest.raises(KeyError, match="no factor 'factors'"):
        posterior.mean("factors")
    assert draw(single("Gamma", 2, 1), rng).quantities("factor") == ("value",)


@pytest.mark.parametrize(
    "build",
    [
        lambda names: db.GaussianMixture(2, 1, variance=1.0, columns=names),
        lambda names: db.extending.CoupledSet(names),
        lambda names: db.LinearRegression("y", columns={"y": db.columns.Gaussian(0, 1)}, terms=names),
        lambda names: db.LatentDirichletAllocation(2, names),
    ],
)
def test_one_string_is_no_list_of_names(build):
    with pytest.raises((TypeError, db.errors.InvalidStructure), match=r"list of (names|words), not one string"):
        build("y")

"""Inner functions of models on inputs where nothing of them is zero, one or saturated."""

from dataclasses import MISSING, fields

import numpy as np
from scipy.sparse import csr_array
from zoo import ZOO

import decbayes as db
from decbayes.models.core import evaluation
from decbayes.models.core.counts import as_counts
from decbayes.models.core.persons import Persons
from decbayes.models.features import _feature_prediction, _starts, _state
from decbayes.models.mixtures import moves
from decbayes.models.mixtures.clusters import PointBlocks
from decbayes.models.regressions.formulas.term_factors import factor_of
from decbayes.models.regressions.messages import doubts, one_broadcast
from decbayes.models.regressions.messages.one_broadcast import Cloud, Quadratic, Reading
from decbayes.models.sequences import rare_moves
from decbayes.models.topics import rare_words
from decbayes.models.topics._passes import Topics
from decbayes.models.topics._topic_moves import TopicMoves

FACTORS = ("x", "w", "g", "h", "C(g, ref='b')", "log(w)", "sqrt(w)", "I(x**2 + w)", "exp(x)", "poly(x, 3)", "poly(w)",
           "bs(x, df=6)", "bs(x, df=4, degree=2)", "bs(w, knots=(2.0, 3.0), bounds=(0.5, 9.0))", "ns(x, df=4)", "ns(w)",
           "ns(x, knots=(4.0, 5.5), bounds=(0, 11))", "I(x * w)", "I(1 / w)", "abs(x)")  # fmt: skip
COLUMNS = {"x": db.columns.Gaussian(5.0, 2.0), "w": db.columns.Gaussian(3.0, 0.5), "g": db.columns.Categorical(*"abc"),
           "h": db.columns.YesNo()}  # fmt: skip


def factors():
    rng = np.random.default_rng(3)
    values = {"x": rng.normal(5, 3, 12), "w": rng.gamma(3.0, 1.0, 12), "g": rng.integers(3, size=12) * 1.0,
              "h": rng.integers(2, size=12) * 1.0}  # fmt: skip
    found = {}
    for text in FACTORS:
        factor = factor_of(text, COLUMNS)
        found[text] = {
            "text": (factor.text, factor.names, factor.unit, factor.flag, factor.categorical),
            "numbers": [factor.numbers(values, whole=whole) for whole in (False, True)],
            "labels": [factor.labels(whole=whole) for whole in (False, True)],
            "largest": [factor.largest(value) for value in (0.5, 20.0)],
        }
    return found


def feature_states():
    rng = np.random.default_rng(8)
    means = np.array([[1.0, 0.0, 0.5, 2.0], [0.0, 1.5, -0.5, 1.0], [-1.0, 0.7, 0.2, 0.1]])
    data = (rng.random((40, 3)) < 0.4) @ means + 0.3 * rng.normal(size=(40, 4))
    shift, precision = 0.1 * rng.normal(size=(3, 4)), np.array([0.5, 0.8, 1.1])
    problem = _state.FeatureData(data, 5, 0.2, shift, precision, np.array([0.7, 1.2, 1.5]), np.array([1.1, 0.9, 2.0]))
    state = _state.state_of(problem, rng.random((3, 40)))
    better = _state.improved(state)
    believed = _feature_prediction.FeaturePosterior(state.means, state.variances, state.alpha, state.beta, 0.2)
    holes = np.where(rng.random(data.shape) < 0.3, np.nan, data)
    white = np.linalg.svd(data - data.mean(axis=0), full_matrices=False)[0][:, :2] * np.sqrt(40)
    pairs = _state.sums(data, better.assignments)
    return {
        "state": [(each.assignments, each.means, each.variances, each.alpha, each.bound) for each in (state, better)],
        "pairwise": state.pairwise,
        "divergence": _state.divergence(state),
        "constant": problem.likelihood_constant,
        "sums": pairs,
        "believing": _state.state_given(problem, state.means, state.variances, state.alpha, state.beta).means,
        "inferred": [_state.infer(*state.pairwise), _state.annealed(*state.pairwise)],
        "rows": _state.row_bounds(*state.pairwise, state.assignments),
        "contrasts": [contrast(white) for contrast in _starts.CONTRASTS],
        "levels": _starts.split_levels(white),
        "two": _starts.two_levels(white, means[:2], np.array([0.3, 0.4, 0.1, 0.9])),
        "moves": [move(state) for move in _starts.moves(problem, np.random.default_rng(2))],
        "repaired": _starts.repaired(state, np.random.default_rng(4), 1e-3).bound,
        "exchangeable": _starts.exchangeable(problem),
        "predicted": (
            _feature_prediction.assignments_given(believed, holes), _feature_prediction.log_densities(believed, holes),
            _feature_prediction.held_log_densities(believed, holes, np.where(np.isnan(holes), data, np.nan)),
            believed.inclusion,
        ),
    }  # fmt: skip


def messages():
    """Of sites with counts: their rows as clouds, and what they would contribute elsewhere."""
    model = db.PoissonRegression("y", columns={"a": "real", "b": "real", "y": "count"}, prior_variance=0.5)
    data = [db.simulate(model, 40, rng=site).data for site in range(3)]
    told = [Quadratic.of(model.fit(shard, rng=1).posterior.contribution["coefficients"]) for shard in data]
    prior = Quadratic.of(model.structure.prior["coefficients"])
    levels, mean, covariance = np.array([0]), np.array([0.2, -0.1, 0.3]), 0.02 * np.eye(3) + 0.01
    clouds = [Cloud.weighted(message.precision, levels) for message in told]
    outcomes = [model.outcome, db.LogisticRegression.outcome]
    read = [Reading.of(message, prior, levels, outcome) for message in told for outcome in outcomes]
    sent = [one_broadcast.marked(message, 0) for message in told]
    return {
        "clouds": clouds,
        "along": [cloud.along(mean) for cloud in clouds],
        "tilted": [cloud.tilted(0.3 * covariance) for cloud in clouds],
        "read": [(site.rows, site.estimate, site.targets) for site in read if site is not None],
        "at": [site.at(mean, covariance) for site in read if site is not None],
        "sent": sent,
        "recentred": [one_broadcast.recentred(sent, prior, [prior], levels, outcome) for outcome in outcomes],
        "divergence": one_broadcast.divergence(told[0] + prior, prior),
        "value": one_broadcast.quadratic_value(told[1], mean, covariance),
        "between": one_broadcast.between(told[0], told[1], 0.3),
        "natural": told[0].natural,
    }


def hidden_moves():
    rng, found = np.random.default_rng(6), []
    for size, least in ((2, 3), (3, 2), (3, 5), (4, 4)):
        moved, begun = rng.poisson(6.0, (size, size)) * 1.0, rng.poisson(4.0, size) * 1.0
        moved[0, 1], moved[1, 0] = 1.0, 0.0
        table = rare_moves.table_of(begun, moved)
        persons = np.minimum(table, np.round(0.6 * table + 1.0))
        try:
            found.append((table, rare_moves.hidden(table, persons, least)))
        except db.errors.InvalidData as error:
            found.append((table, str(error)))
    cells = persons < 4
    places = [tuple(place) for place in np.argwhere(table > 0)[:9]]
    return {"tables": found, "empty": [rare_moves.may_be_empty(table, cells, place) for place in places]}


def doubtful():
    """Which remarks a site's rows get, on both sides of each limit."""
    rng = np.random.default_rng(1)
    columns = {"x": db.columns.Gaussian(50.0, 10.0), "z": db.columns.Gaussian(0.0, 1.0), "g": db.columns.Categorical(2)}
    shapes = [(1.0, 0.0), (2.54, 0.0), (10.0, 0.0), (0.1, 0.0), (1.0, 40.0), (7.0, 0.0), (0.15, 0.0), (1.0, 400.0)]
    values = [
        np.column_stack(
            [times * rng.normal(50, 10, rows) + more, rng.normal(0, times, rows), rng.integers(2, size=rows)]
        )
        for times, more in shapes
        for rows in (4, 5, 40)
    ]
    coded = np.column_stack([np.append(rng.normal(50, 10, 40), [999.0] * 3), np.zeros(43), np.zeros(43)])
    counts = rng.poisson(4.0, 60) * 1.0
    expected = np.full(60, 4.0)
    return {
        "values": [[remark.what for remark in doubts.of_values(columns, points)] for points in [*values, coded]],
        "counts": [
            [remark.kind for remark in doubts.of_counts(targets, expected, weights, side)]
            for targets in (counts, 3.0 * (counts > 4), 2.0 * counts, 0.0 * counts, np.where(counts > 6, 20.0, 2.0))
            for weights in (np.ones(60), 1.0 * (np.arange(60) < 9))
            for side in (3, 8, 59)
        ],
        "broadcast": [
            [remark.kind for remark in doubts.of_one_broadcast(events, others, side, separated)]
            for events in (0, 4, 5, 30) for others in (0, 9, 10, 11) for side in (1, 2) for separated in (False, True)
        ],
        "terms": [
            remark.what for remark in doubts.of_terms(("a=b", "c", "d=e", "f=g", "h=i", "j"), np.zeros((3, 6)), [])
        ],
        "levels": [[remark.kind for remark in doubts.of_levels(*given)] for given in ((1, 2), (1, 3), (2, 3))],
    }  # fmt: skip


def states_moved():
    """Moves of searches for the number of components, from a state that no fit has ended at."""
    rng = np.random.default_rng(9)
    points = np.concatenate([rng.normal(centre, 1.0, (25, 2)) for centre in (0.0, 2.0, 5.0)])
    model = db.GaussianMixture("auto", 2, covariance="full", prior_strength=0.3)
    search = moves.MixtureMoves(model, PointBlocks(model.emissions, points), np.random.default_rng(3))
    state, bound = search.step(search.begin(3))
    words = csr_array(rng.poisson(0.8, (20, 9)).astype(float))
    topics = db.LatentDirichletAllocation("auto", tuple("abcdefghi"))
    counts, before = as_counts(words, 9), Topics(np.full((9, 1), 0.2), np.array([1.8]))
    texts = TopicMoves(topics, counts, before, np.random.default_rng(3))
    told, height = texts.step(texts.begin(3))
    return {
        "mixture": (state, bound, list(search.gains(state)), search.evidence(state)),
        "mixture moved": (search.joined(state, 0, 2), search.without(state, 1), search.divided(state)),
        "topics": (told, height, list(texts.gains(told)), texts.evidence(told)),
        "topics moved": (texts.joined(told, 0, 2), texts.without(told, 1), texts.divided(told)),
    }


def held_out():
    rng = np.random.default_rng(2)
    points, counts = rng.normal(size=(23, 4)), csr_array(rng.poisson(1.5, (15, 7)).astype(float))
    labels, shares = rng.integers(3, size=40), rng.dirichlet(np.ones(4), 40)
    documents = [csr_array(rng.poisson(0.3, (12, 30)).astype(float)) for _ in range(2)]
    rare = np.arange(30) % 4 == 1
    topics = rng.gamma(0.4, 2.0, (3, 30))
    names = Persons.of(rng.integers(6, size=23).tolist())
    model = db.GaussianMixture(2, 4, variance=1.0)
    return {
        "points": evaluation.hold_out(points, share=0.3, rng=1),
        "words": evaluation.hold_out(counts, share=0.4, rng=1),
        "back": [evaluation.hold_back(model, points, share=share) for share in (0.05, 0.3)],
        "halves": evaluation.in_halves(model, [points, points[:9]]),
        "to predict": evaluation.to_predict(model, points, seed=3),
        "sizes": [evaluation.held_size(size, share) for size in (2, 9, 40) for share in (0.01, 0.24, 0.9)],
        "rows": [evaluation.rows_of(count, share) for count in (3, 20) for share in (0.05, 0.4)],
        "rand": [evaluation.adjusted_rand(labels, other) for other in (labels % 2, rng.integers(3, size=40), labels)],
        "entropy": evaluation.relative_entropy(shares),
        "frequency": [rare_words.shares_by_frequency(some, 5, 3) for some in ([], [1, 3, 5, 20, 2])],
        "by topics": rare_words.shares_by_topics(topics[:, ~rare], topics[:, rare].sum(axis=1), 3),
        "evened": rare_words.with_equal_words(csr_array(topics), rare),
        "unnamed": [rare_words.with_anonymous_words(each, rare) for each in documents],
        "places": rare_words.places_by_use(documents, rare),
        "persons": (
            names.total(23),
            names.summed(points),
            names.counts(points[:, 0] > 0.5),
            names.present(shares[:23]),
        ),
    }


# What a model cannot do without; all else is as usual.
NEEDED = {"columns", "target", "vocabulary", "dimension", "classes", "time", "components", "states", "features",
          "topics", "variance", "covariance", "levels"}  # fmt: skip


def as_usual():
    """Models, solvers and rules of which nobody has said anything: sites of two versions agree only if these stay."""
    kinds = (db.solvers.Grouping, db.solvers.Matching, db.solvers.Hierarchical, db.solvers.Quadratic, db.merging.Robust)
    found = {kind.__name__: kind() for kind in kinds}
    for name, (model, _) in ZOO.items():
        kind = type(model)
        given = {
            each.name: getattr(model, each.name)
            for each in fields(model)
            if each.name in NEEDED or (each.default is MISSING and each.default_factory is MISSING)
        }
        usual = kind(**given)
        rules = {rule: getattr(kind, rule) for rule in dir(kind) if isinstance(getattr(kind, rule, None), bool | float)}
        settings = {each.name: getattr(usual, each.name) for each in fields(usual) if each.name not in given}
        found[name] = settings, rules, usual.structure.prior
    return found


PIECES = {"factors": factors, "feature states": feature_states, "messages": messages, "hidden moves": hidden_moves,
          "doubtful": doubtful, "states moved": states_moved, "held out": held_out, "as usual": as_usual}  # fmt: skip

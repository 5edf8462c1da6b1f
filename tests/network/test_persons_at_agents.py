"""Agents count persons, as files do; and their refits cannot tell rare words apart, as rounds by files cannot."""

from dataclasses import replace

import numpy as np
import pytest
from groups import charter_of, gaussian_charter, identities
from scipy.sparse import csr_array

import decbayes as db
from decbayes import network
from decbayes.disclosure import Rules
from decbayes.errors import NotDisclosed
from decbayes.network import Agent
from decbayes.network.protocol.records.notes import information_on
from decbayes.network.protocol.site.evidence import learn, nothing, relearn
from decbayes.network.runtime.owner import read_site

MEMBERS = identities(2)
USUAL = Rules()


def site(model_or_charter, rules=USUAL):
    charter = replace(model_or_charter, disclosure=rules)
    return Agent(charter, MEMBERS[0], rng=np.random.default_rng(0))


def test_many_rows_of_few_persons_are_withheld_until_more_persons_come(rng):
    agent = site(gaussian_charter(MEMBERS))
    with pytest.raises(NotDisclosed, match="There are 6 persons; a file needs at least 20"):
        agent.learn(rng.normal(size=60), persons=np.arange(60) % 6, rng=rng)
    with pytest.raises(NotDisclosed, match="There are 10 persons"):
        agent.learn(rng.normal(size=40), persons=np.arange(40) % 10, rng=rng)  # the six are among the ten
    learned = agent.learn(rng.normal(size=50), persons=np.arange(50) % 25, rng=rng)
    assert learned.evidence.observations in (50, 150)
    agent.publish(learned)
    assert agent.persons_of(agent.evidence) == 25


def test_six_rows_of_one_person_are_no_category(rng):
    columns = {"ward": db.columns.Categorical("bone", "burns", "heart", "other"), "x": db.columns.Gaussian()}
    charter = charter_of(db.LatentClasses(1, columns=columns), MEMBERS)
    ward = rng.choice([0.0, 2.0], size=80)
    ward[:6] = 1.0
    data, persons = np.column_stack([ward, rng.normal(size=80)]), ["Kim"] * 6 + [f"P{row}" for row in range(74)]
    shown = {}
    for named in (False, True):
        evidence = site(charter).learn(data, persons=persons if named else None, rng=rng).evidence
        shown[named] = np.asarray(evidence.posterior.contribution["categorical"]).sum(axis=0)[1]
    assert shown[False] == pytest.approx(6.0)
    assert shown[True] == pytest.approx(0.0, abs=1e-9)


def test_nor_are_they_a_component_in_a_refit(rng):
    data = np.append(rng.normal(size=60), 40.0 + rng.normal(size=12))
    charter = charter_of(db.GaussianMixture(2, 1, variance=1.0, prior_variance=1000.0), MEMBERS)
    persons = db.disclosure.Persons.of([*range(60), *["Kim"] * 12])
    evidence = learn(charter, nothing(charter), {"own": data}, rng, rules=USUAL, people={"own": persons}).evidence
    others = [charter.model.fit(rng.normal(size=200), rng=1).posterior]
    refined = relearn(charter, evidence, {"own": data}, others, rng, USUAL, {"own": persons}).evidence
    for each in (evidence, refined):
        weights = np.asarray(each.posterior.contribution["weights"])[:, 0]
        assert not ((weights > 1e-6) & (weights < 20)).any()
    bare = learn(charter, nothing(charter), {"own": data}, rng, rules=USUAL).evidence
    assert np.asarray(bare.posterior.contribution["weights"])[:, 0].min() == pytest.approx(12, abs=0.5)


def test_a_correction_of_one_person_with_many_rows_is_refused(rng):
    agent = site(gaussian_charter(MEMBERS))
    data, persons = rng.normal(size=60), np.repeat(np.arange(30), 2)
    agent.publish(agent.learn(data, persons=persons, rng=rng))
    few, persons_left = data[8:], persons[8:]
    with pytest.raises(NotDisclosed, match="differ by 4 persons"):
        agent.correct({agent.hold(few, persons_left)}, rng=rng)
    agent.correct({agent.hold(data[10:], persons[10:])}, rng=rng)


def test_matrices_of_few_persons_stay(rng):
    model = db.GaussianMixture(2, 1, variance=1.0, prior_variance=100.0)
    charter = replace(charter_of(model, MEMBERS), disclosure=USUAL)
    charter = replace(charter, rules=network.Rules(intervals=True))
    points = np.concatenate([rng.normal(0, 1, 100), rng.normal(4, 1, 100), np.full(8, 2.0)])
    posterior = model.fit(points, rng=1).posterior
    persons = db.disclosure.Persons.of(["Kim"] * len(points))
    assert information_on(charter, posterior, points, USUAL) is not None
    assert information_on(charter, posterior, points, USUAL, persons) is None


def test_names_are_the_same_in_all_files_of_a_site_and_are_read_from_a_column(tmp_path):
    paths = []
    for number, names in enumerate((["Kim", "Lee", "Kim"], ["Lee", "Ann", "Bob"])):
        paths.append(tmp_path / f"{number}.csv")
        rows = "\n".join(f"{name},{place}.5" for place, name in enumerate(names))
        paths[-1].write_text(f"who,x\n{rows}\n", encoding="utf-8")
    model = db.LatentClasses(1, columns={"x": db.columns.Gaussian()})
    charter = charter_of(model, MEMBERS)
    parts = [read_site(charter, path, "who") for path in paths]
    joined = db.disclosure.Persons.joined([(persons, model.count(data)) for data, persons in parts])
    assert joined.total(6) == 4
    nameless = db.disclosure.Persons.joined([(parts[0][1], 3), (db.disclosure.Persons(), 2)])
    assert nameless.total(5) == 4
    assert read_site(charter, paths[0], "")[1] is None


def test_a_refit_does_not_depend_on_which_rare_words_occur(rng):
    words = [f"w{number}" for number in range(40)]
    counts = rng.poisson(1.0, size=(60, 40))
    counts[:, 30:] = 0
    counts[:3, 30:33] = [[2, 1, 1], [1, 3, 1], [1, 1, 2]]
    swapped = counts.copy()
    swapped[:, 30:] = counts[:, [39, 31, 35, 36, 30, 33, 34, 32, 37, 38]]
    charter = charter_of(db.LatentDirichletAllocation(2, words), MEMBERS)
    other = charter.model.fit(csr_array(rng.poisson(1.0, size=(80, 40))), rng=3).posterior
    refits = []
    for each in (counts, swapped):
        shards = {"own": csr_array(each)}
        own = learn(charter, nothing(charter), shards, np.random.default_rng(1), rules=USUAL).evidence
        refits.append(relearn(charter, own, shards, [other], np.random.default_rng(2), USUAL).evidence.posterior)
    assert refits[0] == refits[1]

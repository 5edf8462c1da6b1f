"""The tree of all components, and components that keep their names."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, is_monotonic, is_valid_linkage
from scipy.optimize import brentq, linear_sum_assignment
from scipy.sparse import csr_array
from scipy.stats import entropy
from structures import everything, topics
from test_grouping import COUPLED, drawn, information, posterior

import decbayes as db
from decbayes.errors import InvalidFile, InvalidPosterior, StructureMismatch
from decbayes.families.joining import Joined
from decbayes.merging.base.canonical import canonical_order
from decbayes.merging.base.components import Components, bases
from decbayes.merging.base.coupled import coupled_problem
from decbayes.merging.base.division import Division
from decbayes.merging.base.lineage import ids_of
from decbayes.merging.grouping import number
from decbayes.merging.grouping.inherited_ids import home_slots, inherited
from decbayes.merging.grouping.search import SlotSearch, new_component

TRUTH = np.kron(np.eye(6), np.full(4, 0.25))


def merged_of(rng, *seen, components=None):
    return db.merge([drawn(rng, TRUTH, each, 2000) for each in seen], components=components)


def topic_of(posterior):
    """Which true topic each component is mostly about."""
    return (posterior.contribution["topics"].toarray() @ TRUTH.T).argmax(axis=1)


class TestTree:
    def test_cuts_are_those_of_its_linkage(self, rng):
        sites = [drawn(rng, TRUTH, rng.choice(6, 3, replace=False), 500) for _ in range(5)]
        tree = db.merging.tree(sites)
        linkage = tree.linkage()
        assert is_valid_linkage(linkage)
        assert sorted(tree.sites().tolist()) == sorted([0, 1, 2, 3, 4] * 3)
        for count in (2, 4, 6, 9):
            labels = fcluster(linkage, count, "maxclust")
            sizes = np.sort(np.bincount(labels)[1:])
            slots = np.concatenate([each[COUPLED] for each in tree.cut(count).assignments])
            np.testing.assert_array_equal(np.sort(np.bincount(slots)), sizes)

    def test_losses_are_those_of_the_information(self, rng):
        sites = [drawn(rng, TRUTH, (0, 1, 2), 500) for _ in range(3)]
        tree = db.merging.tree(sites)
        apart = information(sites, np.arange(9), 9)
        for count in (1, 2, 5, 9):
            slots = np.concatenate([each[COUPLED] for each in tree.cut(count).assignments])
            assert tree.losses()[count - 1] == pytest.approx(apart - information(sites, slots, count), abs=1e-6)

    def test_heights_never_fall_where_a_later_join_loses_less(self):
        joins = Joined(4, np.array([0, 2, 0]), np.array([1, 3, 2]), np.array([3.0, 1.0, 2.0]))
        linkage = joins.linkage()
        assert is_monotonic(linkage)
        np.testing.assert_array_equal(linkage[:, 2], [3.0, 3.0, 3.0])
        np.testing.assert_array_equal(linkage[:, 3], [2.0, 2.0, 4.0])

    def test_more_slots_than_components_leave_some_empty(self, rng):
        sites = [drawn(rng, TRUTH, (0, 1), 500) for _ in range(2)]
        tree = db.merging.tree(sites)
        merged = tree.cut(7).merged()
        assert merged.untouched(COUPLED).sum() == 3
        counts = np.concatenate([site.contribution["topics"].toarray() for site in sites])
        assert sorted(map(tuple, merged.contribution["topics"].toarray()))[3:] == sorted(map(tuple, counts))

    def test_needs_components_that_share_a_prior(self):
        with pytest.raises(StructureMismatch, match="needs one set of components"):
            db.merging.tree([db.Posterior.of_prior(everything())])


class TestFollow:
    def test_what_is_the_same_keeps_id_and_number(self, rng):
        before = merged_of(rng, (0, 1, 2, 3), (3, 2, 1, 0))
        after = merged_of(rng, (2, 0, 3, 1), (1, 0, 3, 2), (0, 3, 1, 2))
        lineage = db.merging.follow(before, after)
        assert {event.kind for event in lineage.events} == {"kept"}
        np.testing.assert_array_equal(topic_of(lineage.posterior), topic_of(before))
        again = db.merging.follow(lineage.posterior, merged_of(rng, (3, 1, 0, 2)))
        assert again.posterior.ids == lineage.posterior.ids
        assert len(set(lineage.posterior.ids)) == 4

    def test_new_things_get_new_ids_and_lost_ones_are_gone(self, rng):
        before = db.merging.follow(*[merged_of(rng, (0, 1, 2))] * 2).posterior
        lineage = db.merging.follow(before, merged_of(rng, (1, 2, 5)))
        kinds = {event.kind: event.id for event in lineage.events if event.kind != "kept"}
        lost = before.ids[int(np.flatnonzero(topic_of(before) == 0)[0])]
        new = lineage.posterior.ids[int(np.flatnonzero(topic_of(lineage.posterior) == 5)[0])]
        assert kinds == {"born": new, "gone": lost}
        assert new not in before.ids

    def test_what_people_have_called_a_component_it_is_still_called(self, rng):
        before = replace(merged_of(rng, (0, 1)), names=("sport", "war"))
        after = db.merging.follow(before, merged_of(rng, (1, 5, 0))).posterior
        called = dict(zip(topic_of(before).tolist(), before.names, strict=True))
        assert after.names == tuple(called.get(topic, "") for topic in topic_of(after).tolist())

    def test_of_an_empty_slot_nothing_is_said(self, rng):
        """An earlier merge may have had more slots than it could fill."""
        before = merged_of(rng, (0, 1, 2), components=5)
        lineage = db.merging.follow(before, merged_of(rng, (0, 1, 2)))
        assert sorted(event.kind for event in lineage.events) == ["kept"] * 3

    def test_splits_and_joins_are_told_with_their_shares(self, rng):
        narrow = merged_of(rng, (0, 1))
        halves = TRUTH[0] * np.array([[2.0] * 2 + [0.6] * 22, [1.0] * 24])
        split = db.Posterior(topics(3, 24), {"topics": csr_array(np.vstack([1000 * halves, 2000 * TRUTH[1]]))})
        (event,) = [event for event in db.merging.follow(narrow, split).events if event.kind == "split"]
        found = db.merging.follow(narrow, split).posterior
        evidence = found.contribution["topics"].sum(axis=1)
        halves = [k for k in range(3) if topic_of(found)[k] == 0]
        new = found.ids.index(event.id)
        assert new in halves
        assert event.other == found.ids[next(k for k in halves if k != new)]
        assert event.share == pytest.approx(evidence[new] / evidence[halves].sum())
        assert "split off" in str(event)
        back = db.merging.follow(db.merging.follow(narrow, split).posterior, merged_of(rng, (0, 1)))
        (event,) = [event for event in back.events if event.kind == "joined"]
        gone = found.ids.index(event.id)
        assert gone in halves
        assert event.share == pytest.approx(evidence[gone] / evidence[halves].sum())

    def test_of_two_that_would_do_the_one_that_holds_more_is_continued(self):
        """The small one is a little closer; names should follow the evidence."""
        large, small, between = (np.array([[share, 1.0 - share]]) for share in (0.60, 0.35, 0.45))
        before = replace(posterior(np.vstack([1000.0 * large, 10.0 * small])), ids=("large", "small"))
        lineage = db.merging.follow(before, posterior(1010.0 * between))
        assert lineage.posterior.ids == ("large",)
        assert [(event.kind, event.id, event.other) for event in lineage.events] == [
            ("kept", "large", ""),
            ("joined", "small", "large"),
        ]

    def test_what_is_born_gets_another_id_after_another_history(self):
        """The same content, found anew after other merges, is not what somebody has called so before."""
        old, merged = 100.0 * TRUTH[:1], posterior(100.0 * TRUTH[:2])
        names = {}
        for history in ("a", "b", "a"):
            lineage = db.merging.follow(replace(posterior(old), ids=(history,)), merged)
            (born,) = [event.id for event in lineage.events if event.kind == "born"]
            assert names.setdefault(history, born) == born
        assert len(set(names.values())) == 2

    @pytest.mark.parametrize(("apart", "kind"), [(1.6, "kept"), (1.75, "born")])
    def test_clusters_are_the_same_up_to_seven_tenths_of_a_nat(self, apart, kind):
        """One observation of each of two unit normals d apart loses d²/4 when both have one mean: 0.64 and 0.77."""
        model = db.GaussianMixture(1, 1, variance=1.0, prior_variance=1e6)
        points = np.array([[-1.0], [1.0]]).repeat(500, axis=0)
        before, after = (model.fit(points + move, rng=np.random.default_rng(0)).posterior for move in (0.0, apart))
        assert db.merging.follow(before, after).events[0].kind == kind

    def test_transitions_move_by_rows_and_columns(self, rng):
        model = db.HiddenMarkov(states=3, columns={"c": db.columns.Categorical("a", "b", "c")})
        walk = [rng.choice(3, p=[0.8, 0.15, 0.05])]
        for _ in range(600):
            walk.append(rng.choice(3, p=np.roll([0.8, 0.15, 0.05], walk[-1])))
        said = [pd.DataFrame({"c": np.array(list("abc"))[walk]})]
        posterior = model.fit(said, rng=rng).posterior
        (coupled,) = model.structure.symmetry
        order = np.array([2, 0, 1])
        parts = {
            name: model.structure.families[name].relabelled(posterior.contribution[name], order)
            for name in coupled.factors
        }
        other = db.Posterior(model.structure, {**posterior.contribution, **parts})
        followed = db.merging.follow(posterior, other).posterior
        for name, expected in posterior.contribution.items():
            np.testing.assert_array_equal(followed.contribution[name], expected)

    def test_the_order_of_sites_changes_no_id(self, rng):
        before = merged_of(rng, (0, 1, 2))
        sites = [drawn(rng, TRUTH, rng.choice(6, 3, replace=False), 500) for _ in range(5)]
        expected = db.merge(sites, components=6, since=before)
        assert db.merge(sites[::-1], components=6, since=before) == expected
        assert expected.ids

    def test_a_merge_since_another_adds_nothing_of_it(self, rng):
        before = merged_of(rng, (0, 1, 2))
        sites = [drawn(rng, TRUTH, (0, 1, 2), 500) for _ in range(3)]
        found = db.align(sites, since=before)
        assert found.merged().contribution["topics"].sum() == pytest.approx(
            sum(each.contribution["topics"].sum() for each in sites)
        )
        np.testing.assert_array_equal(topic_of(found.merged()), topic_of(before))
        np.testing.assert_array_equal(
            db.merging.product(found.relabelled()).contribution["topics"].toarray(),
            found.merged().contribution["topics"].toarray(),
        )

    def test_what_an_earlier_merge_told_apart_stays_apart(self):
        """Two slots are all there is, and something new has come: old slots share it, rather than give one up."""
        old = 100.0 * TRUTH[:2]
        sites = [posterior(np.vstack([0.1 * old, 60.0 * TRUTH[2:3]])), posterior(0.1 * old)]
        plain = db.align(sites, components=2, solver=db.solvers.Grouping(passes=0)).assignments[0][COUPLED]
        assert plain[0] == plain[1] != plain[2]
        since = db.align(sites, components=2, since=posterior(old), solver=db.solvers.Grouping(passes=0))
        assert [each[COUPLED].tolist()[:2] for each in since.assignments] == [[0, 1], [0, 1]]

    def test_a_slot_more_is_for_what_is_new(self):
        sites = [posterior(np.vstack([scale * TRUTH[:3]])) for scale in (40.0, 30.0)]
        found = db.align([*sites, posterior(200.0 * TRUTH[:2])], components=3, since=posterior(100.0 * TRUTH[:2]))
        assert [each[COUPLED].tolist() for each in found.assignments] == [[0, 1, 2], [0, 1, 2], [0, 1]]
        assert [event.kind for event in found.lineage.events] == ["kept", "kept", "born"]

    def test_a_new_slot_begins_with_what_two_sites_have_found_anew(self):
        """A topic that one site has mixed of two known ones fits worse than each site's new one; nobody follows it."""
        old, new, mixed = 1000.0 * TRUTH[:2], 60.0 * TRUTH[2:3], 200.0 * TRUTH[:2].sum(axis=0, keepdims=True)
        sites = [posterior(new), posterior(new), posterior(mixed)]
        structure = topics(3, TRUTH.shape[1])
        problem = coupled_problem([*sites, posterior(np.vstack([old, 0.0 * new]))], COUPLED, structure)
        components, anchors = (Components.of(problem.factors, problem.contents[part]) for part in np.s_[:3, 3:])
        base = bases(components.factors, float(components.evidence.sum()), 3)
        search = SlotSearch(components, np.array([1, 1, 0]), base, 3, anchors)
        assert int(search.lost().argmax()) == 2
        known = np.array([True, True, False])
        assert new_component(search, 2, known, np.arange(3))[0] in (0, 1)

    @pytest.mark.parametrize(("lost", "new"), [(0.45, False), (0.55, True)])
    def test_what_loses_less_than_half_a_nat_per_word_begins_no_slot(self, lost, new):
        """A known topic, far larger than all else, tells a word of another at the price of their divergence."""
        old = np.array([0.5, 0.5])
        share = brentq(lambda x: entropy([x, 1.0 - x], old) - lost, 0.5, 1.0 - 1e-9)
        sites = [posterior(1e3 * np.array([[share, 1.0 - share]])) for _ in range(2)]
        known = posterior(1e8 * np.vstack([old, 0.0 * old]))
        problem = coupled_problem([*sites, known], COUPLED, topics(2, 2))
        components, anchors = (Components.of(problem.factors, problem.contents[part]) for part in np.s_[:2, 2:])
        base = bases(components.factors, float(components.evidence.sum()), 2)
        search = SlotSearch(components, np.zeros(2, dtype=int), base, 2, anchors)
        worth = new_component(search, 1, np.array([True, False]), np.arange(2))[1]
        assert worth == pytest.approx(1e3 * lost, rel=0.02) if new else worth == 0.0

    def test_words_are_divided_as_an_earlier_merge_has_them(self):
        """Nobody here tells the two topics apart; the merge before them did."""
        both = 50.0 * TRUTH[:1] + 50.0 * TRUTH[1:2]
        sites = [posterior(np.vstack([both, 0.0 * both])) for _ in range(2)]
        merged = db.merge(sites, since=posterior(100.0 * TRUTH[:2]), duplicates="allow")
        shares = merged.contribution["topics"].toarray() @ TRUTH.T * 4.0
        np.testing.assert_allclose(shares[:, :2], 100.0 * np.eye(2), atol=2.0)

    def test_of_what_was_there_before_most_stays_where_it_was(self):
        """Sites tell two topics apart in another way than the day before. No count is lost, and what each site has put
        into the slots adds up."""
        before = posterior(np.array([[80.0, 20.0, 50.0], [20.0, 80.0, 50.0]]))
        sites = [posterior(scale * np.array([[30.0, 10.0, 0.0], [10.0, 20.0, 40.0]])) for scale in (1.0, 2.0)]
        found = db.align(sites, since=before)
        free = {each: replace(division, steady=None) for each, division in found.divisions.items()}
        moved = replace(found, lineage=None, divisions=free).merged().contribution["topics"].toarray()
        held = before.contribution["topics"].toarray()
        held *= np.minimum(1.0, moved.sum(axis=1) / held.sum(axis=1))[:, None]
        stays = 0.6 * held / np.maximum(held.sum(axis=0), moved.sum(axis=0))
        expected = moved * (1.0 - stays.sum(axis=0)) + stays * moved.sum(axis=0)
        merged = found.merged().contribution["topics"].toarray()
        assert np.abs(merged - moved).max() > 1.0
        np.testing.assert_allclose(merged, expected, rtol=1e-9)
        np.testing.assert_allclose(merged.sum(axis=0), 3.0 * np.array([40.0, 30.0, 40.0]))
        parts = [each.contribution["topics"].toarray() for each in found.relabelled()]
        np.testing.assert_allclose(sum(parts), merged, rtol=1e-9)

    def test_no_count_is_lost_where_words_stay_and_slots_are_new(self, rng):
        """Of each word, all slots together have what they received; a new slot has exactly what it received."""
        steady, received = rng.uniform(0.0, 0.2, size=(7, 4)), rng.gamma(1.0, 5.0, size=(7, 4))
        steady[:, 2] = 0.0
        division = Division((), received, np.arange(4), steady)
        settled = division.steadied(received)
        np.testing.assert_allclose(settled.sum(axis=1), received.sum(axis=1))
        np.testing.assert_array_equal(settled[:, 2], received[:, 2])
        assert np.abs(settled - received).max() > 1.0

    def test_a_topic_that_is_gone_keeps_nothing(self):
        """All of its words are in other topics, too."""
        profiles = np.array([[0.6, 0.2, 0.1, 0.1], [0.1, 0.1, 0.2, 0.6], [0.05, 0.45, 0.45, 0.05]])
        mixed = posterior(40.0 * profiles[:2].sum(axis=0, keepdims=True))
        found = db.align([*[posterior(40.0 * profiles[:2])] * 2, mixed], since=posterior(100.0 * profiles))
        assert found.divisions
        assert found.merged().contribution["topics"].sum(axis=1)[2] < 1.0

    @pytest.mark.parametrize(("finders", "slots"), [(1, 2), (2, 3)])
    def test_what_two_sites_have_found_since_gets_a_slot(self, finders, slots, rng, monkeypatch):
        monkeypatch.setattr(number, "descend", lambda components, start: (2, False, True, 2))
        before = db.merge([drawn(rng, TRUTH, (0, 1), 2000) for _ in range(4)])
        sites = [drawn(rng, TRUTH, (0, 1, 2) if site < finders else (0, 1), 2000) for site in range(4)]
        after = db.merge(sites, components="auto", since=before)
        assert len(after.ids) == slots
        assert set(before.ids) <= set(after.ids)

    def test_fewer_slots_keep_what_can_be_kept(self, rng):
        before = db.merging.follow(*[merged_of(rng, (0, 1, 2, 3))] * 2).posterior
        after = db.merge([drawn(rng, TRUTH, (3, 2), 500)], components=2, since=before)
        assert set(after.ids) == {before.ids[k] for k in range(4) if topic_of(before)[k] in (2, 3)}

    def test_other_structures_cannot_be_followed(self, rng):
        with pytest.raises(StructureMismatch, match="can be followed only"):
            db.merging.follow(posterior(np.ones((2, 5))), posterior(np.ones((2, 6))))


class TestIds:
    def test_a_slot_inherits_the_id_of_most_of_its_evidence_and_each_id_once(self):
        first = replace(posterior(np.vstack([90.0 * TRUTH[0], 50.0 * TRUTH[1]])), ids=("x", "y"))
        second = replace(posterior(np.vstack([40.0 * TRUTH[1], 60.0 * TRUTH[0]])), ids=("x", "z"))
        third = posterior(np.vstack([30.0 * TRUTH[0], 300.0 * TRUTH[2]]))
        merged = db.merge([first, second, third], components=3)
        named = dict(zip(topic_of(merged).tolist(), merged.ids, strict=True))
        assert (named[0], named[1]) == ("x", "y")
        assert named[2] not in ("", "x", "y", "z")
        assert db.merge([third, first, second], components=3) == merged
        assert db.merge([third, third], components=2, duplicates="allow").ids == ()

    def test_of_a_thousand_components_no_two_get_the_same(self):
        counts = np.stack([np.arange(1.0, 1001.0), np.arange(2.0, 1002.0) ** 1.5], axis=1)
        assert len(set(ids_of(posterior(counts)))) == 1000

    def test_are_given_to_slots_as_the_best_assignment_of_all_would(self, rng):
        """Forty sites with ids of their own, of which some are shared: far more ids than slots."""
        ids = [tuple(f"{rng.integers(60)}" for _ in range(5)) for _ in range(40)]
        slots, evidence = [rng.integers(4, size=5) for _ in ids], rng.uniform(1.0, 9.0, size=200)
        votes = pd.DataFrame({"slot": np.concatenate(slots), "id": np.concatenate(ids), "weight": evidence})
        table = votes.pivot_table(index="slot", columns="id", values="weight", aggfunc="sum", fill_value=0.0)
        rows, columns = linear_sum_assignment(table, maximize=True)
        assert inherited(ids, slots, evidence, 4) == tuple(table.columns[columns[np.argsort(rows)]])

    def test_components_without_an_id_do_not_vote(self):
        """Most of the slot has no id; the little that has one names it."""
        slots = [np.array([0, 0]), np.array([0, 1])]
        evidence = np.array([200.0, 100.0, 10.0, 5.0])
        assert inherited([("", ""), ("x", "y")], slots, evidence, 2) == ("x", "y")

    def test_what_has_no_id_has_no_home_however_many_sites_left_it_out(self):
        slots = home_slots(
            [("x", ""), ("x", ""), ("x", "y")], [2, 2, 2], np.array([10.0, 9.0, 10.0, 9.0, 10.0, 9.0]), 2
        )
        np.testing.assert_array_equal(slots, [0, -1, 0, -1, 0, -1])

    def test_are_part_of_the_order_of_posteriors(self):
        """Posteriors that differ in their ids alone come in one order, whoever lists them."""
        same = posterior(np.vstack([40.0 * TRUTH[0], 40.0 * TRUTH[1]]))
        named = [replace(same, ids=ids) for ids in (("p", "q"), ("a", "b"), ("x", "y"))]
        orders = [[given[site].ids for site in canonical_order(given)[0]] for given in (named, named[::-1])]
        assert orders[0] == orders[1]

    def test_pull_components_together_that_sites_have_called_the_same(self):
        """A component between two topics goes with the one that its id is of, unless it gains much elsewhere."""
        middle = 30.0 * TRUTH[0] + 31.0 * TRUTH[1]
        sites = [posterior(np.vstack([100.0 * TRUTH[0], 100.0 * TRUTH[1]])) for _ in range(2)]
        between, solver = posterior(np.vstack([middle, 0.0 * middle])), db.solvers.Grouping(passes=0)
        plain = db.align([*sites, between], solver=solver).assignments
        assert plain[2][COUPLED][0] == plain[0][COUPLED][1]
        named = [*(replace(site, ids=("a", "b")) for site in sites), replace(between, ids=("a", ""))]
        found = db.align(named, solver=solver)
        assert found.assignments[2][COUPLED][0] == found.assignments[0][COUPLED][0]
        assert found.merged().ids == ("a", "b")
        far = replace(posterior(np.vstack([100.0 * TRUTH[1], 0.0 * middle])), ids=("a", ""))
        found = db.align([*named[:2], far], solver=solver)
        assert found.assignments[2][COUPLED][0] == found.assignments[0][COUPLED][1]

    def test_that_sites_do_not_share_change_no_merge(self, rng):
        truth = rng.dirichlet(np.ones(24), size=6)
        sites = [drawn(rng, truth, rng.choice(6, 3, replace=False), 60) for _ in range(8)]
        named = [replace(site, ids=(f"{place}a", f"{place}b", f"{place}c")) for place, site in enumerate(sites)]
        merged = db.merge(named, components=4)
        assert replace(merged, ids=()) == db.merge(sites, components=4)

    def test_are_kept_in_files_and_are_part_of_what_a_posterior_is(self, rng, tmp_path):
        plain = merged_of(rng, (0, 1))
        named = replace(plain, ids=("first", "second"))
        db.save(named, tmp_path / "named.posterior")
        assert db.load(tmp_path / "named.posterior") == named != plain
        assert db.load(tmp_path / "named.posterior").ids == ("first", "second")

    @pytest.mark.parametrize("ids", [("a",), ("a", "b\n"), ("a", 3), ("a", "b" * 100)])
    def test_are_short_strings_one_for_each_component(self, rng, ids):
        with pytest.raises(InvalidPosterior, match=r"ids: one for each component|ids of components are single lines"):
            replace(merged_of(rng, (0, 1)), ids=ids)

    def test_damaged_ids_are_refused(self, rng, tmp_path):
        path = tmp_path / "named.posterior"
        db.save(replace(merged_of(rng, (0, 1)), ids=("first", "second")), path)
        content = path.read_bytes()
        quoted = json.dumps('["first","second"]')[1:-1].encode()
        assert quoted in content
        for wrong in ('["first"         ]', '[1111111,"second"]', '{"first":"secon" }', '"first,   second" '):
            path.write_bytes(content.replace(quoted, json.dumps(wrong)[1:-1].encode().ljust(len(quoted))))
            with pytest.raises(InvalidFile, match=r"named\.posterior"):
                db.load(path)

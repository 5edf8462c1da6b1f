"""The same bits for any number of threads, and nothing lost when one of them fails."""

import threading
import time

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.base import workers
from decbayes.models.core import points
from decbayes.models.features import _state as feature_state
from decbayes.models.likelihoods import point_pass
from decbayes.models.sequences import chains
from decbayes.models.topics import _passes as topic_pass


def fits(rng):
    counts = csr_array(rng.poisson(0.6, size=(400, 90)))
    points = rng.normal(size=(3000, 3)) + 4.0 * rng.integers(2, size=(3000, 1))
    short = db.Ascent(passes=4, restarts=0, warm_up=1)
    topics = db.LatentDirichletAllocation(5, tuple(map(str, range(90))), ascent=short)
    return {
        "topics": lambda: topics.fit(counts, rng=np.random.default_rng(1)),
        "mixture": lambda: db.GaussianMixture(3, 3, covariance="full", ascent=short).fit(
            points, rng=np.random.default_rng(1)
        ),
        "states": lambda: db.HiddenMarkov(3, columns=dict.fromkeys("abc", "real"), ascent=short).fit(
            np.split(points, [40, 1000, 1500, 2900]), rng=np.random.default_rng(1)
        ),
        "features": lambda: db.LatentFeatures(3, 3, variance=0.5, ascent=short).fit(
            points[:1000], rng=np.random.default_rng(1)
        ),
    }


@pytest.mark.parametrize("kind", ["topics", "mixture", "features", "states"])
def test_every_number_of_threads_gives_the_same_bits(kind, rng, monkeypatch):
    monkeypatch.setattr(topic_pass, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(topic_pass, "WORDS", 16)
    monkeypatch.setattr(workers, "WORTH_A_THREAD", 1)
    monkeypatch.setattr(points, "BLOCK", 400)
    monkeypatch.setattr(chains, "BLOCK", 400)
    monkeypatch.setattr(feature_state, "BLOCK", 150)
    monkeypatch.setattr(workers, "cpu_count", lambda: 5)
    names, do = set(), workers.share_out

    def watched(tasks, **settings):
        waiting = list(tasks)

        def named(task):
            names.add(threading.current_thread().name)
            for _ in range(500 if threads > 1 and len(waiting) > 1 else 0):  # on a busy machine a thread comes late
                if len(names) > 1:
                    break
                time.sleep(1e-3)
            task()

        do([lambda task=task: named(task) for task in waiting], **settings)

    for module in (topic_pass, point_pass, workers):
        monkeypatch.setattr(module, "share_out", watched)
    found = {}
    for threads in (1, 2, 5):
        names.clear()
        with joblib.parallel_config("threading", n_jobs=threads):
            fit = fits(np.random.default_rng(0))[kind]()
        found[threads] = (fit.posterior.digest, fit.bound)
        assert (len(names) > 1) == (threads > 1)
    assert len(set(found.values())) == 1


def test_all_tasks_are_done_once():
    done = []
    workers.share_out(lambda n=n: done.append(n) for n in range(200))
    assert sorted(done) == list(range(200))


def test_a_failure_is_told_and_ends_what_has_not_begun():
    done = []

    def fail():
        raise ValueError("told")

    with joblib.parallel_config("threading", n_jobs=1), pytest.raises(ValueError, match="told"):
        workers.share_out([fail, *(lambda: done.append(1) for _ in range(10))])
    assert not done


def test_tasks_may_share_out_their_own_work():
    done = []
    with joblib.parallel_config("threading", n_jobs=2):
        workers.share_out(lambda: workers.share_out(lambda: done.append(1) for _ in range(5)) for _ in range(8))
    assert len(done) == 40

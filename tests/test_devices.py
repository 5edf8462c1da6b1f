"""Which device is used: as it was said last, with one line where there is no GPU."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes import devices
from decbayes.errors import MissingDevice
from decbayes.merging.grouping import grouping
from decbayes.network.protocol.records.merges import merge_records
from decbayes.updates.rounds import Round, Sent

MODEL = db.LatentDirichletAllocation(2, ("a", "b", "c"), ascent=db.Ascent(passes=2))
COUNTS = np.array([[3, 1, 0], [0, 1, 4]])


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch):
    def missing():
        raise MissingDevice("CuPy finds no GPU.")

    monkeypatch.setattr(devices, "gpu", missing)


def test_auto_falls_back_to_the_processor_and_says_so(rng):
    expected = MODEL.fit(COUNTS, rng=np.random.default_rng(0))
    with pytest.warns(RuntimeWarning, match="The processor is used. CuPy finds no GPU"):
        found = MODEL.fit(COUNTS, rng=np.random.default_rng(0), device="auto")
    assert found.posterior == expected.posterior


def test_one_line_says_it_for_all_that_follows(rng):
    posteriors = [MODEL.fit(COUNTS, rng=rng).posterior for _ in range(2)]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with db.devices.use_device("auto"):
            MODEL.fit_many([COUNTS, COUNTS], rng=rng)
            MODEL.score(db.merge(posteriors), *db.checking.hold_out(csr_array(COUNTS), rng=rng))
    (line,) = told
    assert line.filename == __file__


def test_a_gpu_that_was_asked_for_must_be_there(rng):
    with pytest.raises(MissingDevice):
        MODEL.fit(COUNTS, rng=rng, device="cuda")
    with db.devices.use_device("cuda"), pytest.raises(MissingDevice):
        MODEL.fit(COUNTS, rng=rng)
    MODEL.fit(COUNTS, rng=rng)


def test_what_was_said_for_one_fit_counts_more_than_what_was_said_for_all(rng):
    with db.devices.use_device("cuda"):
        MODEL.fit(COUNTS, rng=rng, device="cpu")
        with db.devices.use_device("cpu"):
            MODEL.fit(COUNTS, rng=rng)
        with pytest.raises(MissingDevice):
            MODEL.fit(COUNTS, rng=rng)


def test_what_sites_must_find_alike_stays_on_the_processor(monkeypatch, rng):
    """The GPU's merges have other last bits. Here every use of one is an error."""
    monkeypatch.setattr(grouping, "LARGE", 0)
    posteriors = [MODEL.fit(COUNTS, rng=rng).posterior for _ in range(3)]
    rules = SimpleNamespace(share=1.0, components="model", robust=False)
    header, signed = SimpleNamespace(observations=2, units=9), SimpleNamespace(entry=None)
    records = [SimpleNamespace(header=header, signed=signed, posterior=own) for own in posteriors]
    with db.devices.use_device("cuda"):
        with pytest.raises(MissingDevice):
            db.merge(posteriors)
        merge_records(SimpleNamespace(rules=rules), records, "")
        Round.of({str(site): Sent(own) for site, own in enumerate(posteriors)})
        with pytest.raises(MissingDevice):
            MODEL.fit(COUNTS, rng=rng)


def test_other_names_are_refused(rng):
    with pytest.raises(ValueError, match="one of cpu, cuda, auto; not 'tpu'"):
        db.devices.use_device("tpu")

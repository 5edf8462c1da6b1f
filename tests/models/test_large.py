"""Data in chunks, in files and in memory maps give the same bits as in memory, and need less of it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array
from zoo import ZOO

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.inputs import filed, large
from decbayes.inputs.filed import FileArray, FileMatrix, Folder
from decbayes.inputs.texts import Texts, parquet_rows
from decbayes.models.core import counts as counting
from decbayes.models.core import points
from decbayes.models.core.ascent import FitInterrupted
from decbayes.models.likelihoods import point_pass
from decbayes.models.mixtures import clusters
from decbayes.network.protocol.site.shards import shard_id

WORDS = 80
MODEL = db.LatentDirichletAllocation(
    4, tuple(f"word{w}" for w in range(WORDS)), ascent=db.Ascent(passes=8, tolerance=0.0, warm_up=3)
)


def corpus(rng, documents=150):
    truth = rng.dirichlet(np.full(WORDS, 0.1), size=4)
    shares = rng.dirichlet(np.full(4, 0.2), size=documents)
    lengths = rng.poisson(30, size=documents)
    return csr_array(np.array([rng.multinomial(n, share @ truth) for n, share in zip(lengths, shares, strict=True)]))


def cut(matrix, ends):
    return [matrix[first:last] for first, last in zip([0, *ends], [*ends, matrix.shape[0]], strict=True)]


def fitted(data, model=MODEL):
    return model.fit(data, rng=np.random.default_rng(3))


@pytest.mark.parametrize("ends", [[], [1, 2, 90], [75, 75]])
def test_topics_of_chunks_are_those_of_all_documents(rng, ends, monkeypatch):
    documents = corpus(rng)
    whole = fitted(documents)
    monkeypatch.setattr(counting, "BLOCK_DOCUMENTS", 7)
    parts = cut(documents, ends)
    for data in (db.streams.Chunks(lambda: parts), iter(parts), parts, FileMatrix.of(WORDS, parts)):
        found = fitted(data)
        assert (found.posterior.digest, found.bound) == (whole.posterior.digest, whole.bound)


def test_the_size_of_blocks_changes_no_bit(rng, monkeypatch):
    documents = corpus(rng)
    whole = fitted(documents)
    monkeypatch.setattr(counting, "BLOCK_ENTRIES", 50)
    assert fitted(documents).posterior.digest == whole.posterior.digest


def test_chunks_are_checked_as_all_data_is(rng):
    documents = corpus(rng)
    for wrong, reason in ((documents[:, 1:], "expects"), (documents * 0.5, "integers"), (-documents, "between")):
        with pytest.raises(InvalidData, match=reason):
            fitted(db.streams.Chunks(lambda wrong=wrong: [documents, wrong]))


def test_topics_of_chunks_need_the_memory_of_a_chunk(monkeypatch):
    """The documents of all chunks never meet in memory, nor do their topics."""
    monkeypatch.setattr(counting, "BLOCK_ENTRIES", 1 << 13)
    monkeypatch.setattr(filed, "BLOCK_ENTRIES", 1 << 13)

    def chunk(number):
        return csr_array((np.random.default_rng(number).random((500, WORDS)) < 0.5).astype(float))

    def peak(data):
        fitted(data())
        tracemalloc.start()
        fitted(data())
        top = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return top

    few, many = (peak(lambda n=n: db.streams.Chunks(lambda: map(chunk, range(n)))) for n in (4, 24))
    entries = 20 * 500 * WORDS // 2
    # What grows is a number per document: where it begins, and its part of the bound.
    assert many - few < 0.25 * 8 * entries


MIXTURES = ["known variance", "spherical", "diagonal", "full", "yes or no", "counts", "categories", "classes"]


@pytest.mark.parametrize("kind", MIXTURES)
def test_points_of_chunks_maps_and_files_are_those_in_memory(kind, tmp_path, monkeypatch):
    """In blocks of 40 points, of which one sees nothing, with centres among 50 of them and no features kept."""
    for module in (clusters, point_pass):
        monkeypatch.setattr(module, "MOST_CANDIDATES", 50)
    monkeypatch.setattr(points, "BLOCK", 40)
    kept, model = ZOO[kind][0], replace(ZOO[kind][0], ascent=db.Ascent(passes=4, restarts=1))
    values = np.array(model.points(db.simulate(kept, 130, rng=np.random.default_rng(4)).data))
    if model.emissions.may_miss:
        values[50], values[60, 0] = np.nan, np.nan
    np.save(tmp_path / "points.npy", values)
    whole = fitted(values, model)
    monkeypatch.setattr(point_pass, "MOST_KEPT", 0)
    spool = Folder().array(np.float64, values.shape[1:])
    spool.append(values)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    for data in (db.streams.Chunks(lambda: cut(values, [10, 90])), spool, mapped, mapped[:]):
        found = fitted(data, model)
        assert (found.posterior.digest, found.bound) == (whole.posterior.digest, whole.bound)
        for read in (model.log_predictive, model.assign):
            np.testing.assert_array_equal(read(whole.posterior, data), read(whole.posterior, values))


def test_points_that_saw_nothing_change_nothing(rng, monkeypatch):
    """In the second of two blocks, so that blocks are the same without them."""
    monkeypatch.setattr(points, "BLOCK", 64)
    model, values = ZOO["diagonal"][0], rng.normal(size=(100, 2))
    there = fitted(np.concatenate([values, np.full((7, 2), np.nan)]), model)
    whole = fitted(values, model)
    assert (there.posterior, there.bound) == (whole.posterior, whole.bound)


def test_a_sample_of_points_is_some_of_them_each_once(rng, monkeypatch):
    monkeypatch.setattr(points, "BLOCK", 16)
    values = np.arange(100.0)[:, None]
    blocks = point_pass.PointBlocks(db.GaussianMixture(2, dimension=1, variance=1.0).emissions, values)
    np.testing.assert_array_equal(blocks.sample(100, rng), values)
    counts = np.zeros(100)
    for _ in range(200):
        sample = blocks.sample(30, rng)[:, 0].astype(int)
        assert len(set(sample)) == 30
        counts[sample] += 1
    assert abs(counts - 60).max() < 5 * np.sqrt(200 * 0.3 * 0.7)


def test_a_map_is_not_read_into_memory(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(60_000, 8))
    np.save(tmp_path / "points.npy", values)
    model = db.GaussianMixture(2, 8, covariance="diagonal", ascent=db.Ascent(passes=2, restarts=0))
    monkeypatch.setattr(point_pass, "MOST_KEPT", 0)
    monkeypatch.setattr(point_pass, "MOST_SUMS", 1 << 10)
    monkeypatch.setattr(points, "BLOCK", 1 << 10)
    monkeypatch.setattr(clusters, "MOST_CANDIDATES", 1 << 10)
    mapped = np.load(tmp_path / "points.npy", mmap_mode="r")
    fitted(mapped[:100], model)
    tracemalloc.start()
    fitted(mapped, model)
    top = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert top < 0.5 * values.nbytes


def test_parquet_files_are_not_read_into_memory(tmp_path, monkeypatch):
    """Of tables and of texts no more is held at any time than a few groups of rows."""
    pyarrow = pytest.importorskip("pyarrow", reason="needs the parquet extra")
    from pyarrow import parquet

    path, rows = tmp_path / "a.parquet", 50_000
    texts = [f"{number:0100d}" for number in range(rows)]
    table = pyarrow.table({"text": texts, **{f"x{column}": np.arange(rows) + 0.5 for column in range(8)}})
    parquet.write_table(table, path, row_group_size=1000, compression="none", use_dictionary=False)
    del table
    before, most = pyarrow.total_allocated_bytes(), path.stat().st_size / 4
    for _ in parquet_rows(Texts((path,)), path):
        assert pyarrow.total_allocated_bytes() - before < most
    held = []
    monkeypatch.setattr(large, "ROWS", 1000)
    monkeypatch.setattr(large, "check_numeric", lambda *_: held.append(pyarrow.total_allocated_bytes() - before))
    found = large.large_parquet(path, [f"x{column}" for column in range(8)])
    assert len(held) == 50
    assert max(held) < most
    assert len(found.values) == rows


def test_points_in_files_are_checked_when_they_are_read(tmp_path):
    values = np.zeros((50, 2))
    values[30, 1] = np.nan
    np.save(tmp_path / "points.npy", values)
    model = db.GaussianMixture(2, 2, covariance="full")
    with pytest.raises(InvalidData, match="1 of"):
        fitted(np.load(tmp_path / "points.npy", mmap_mode="r"), model)
    with pytest.raises(InvalidData, match="no chunks"):
        fitted(db.streams.Chunks(list), model)


class TestFileArray:
    def test_rows_are_what_was_written(self, rng):
        array, values = Folder().array(np.float32, (3,)), rng.normal(size=(10, 3)).astype(np.float32)
        array.append(values[:4])
        array.append(values[4:])
        assert array.shape == (10, 3)
        np.testing.assert_array_equal(array[2:7], values[2:7])
        array[3:5] = np.zeros((2, 3))
        values[3:5] = 0.0
        np.testing.assert_array_equal(np.asarray(array), values)
        with pytest.raises(ValueError, match="cannot hold"):
            array[0:2] = np.zeros((3, 3))

    def test_what_was_not_written_is_zero(self):
        assert not Folder().array(np.float64, (2,), length=5)[:].any()

    def test_the_files_are_gone_when_nobody_holds_them(self):
        array = Folder().array(np.float64, length=5)
        path = array.path
        assert path.exists()
        del array
        assert not path.parent.exists()

    def test_a_part_of_a_map_is_not_taken_for_its_file(self, tmp_path):
        np.save(tmp_path / "a.npy", np.arange(20.0).reshape(10, 2))
        mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
        np.testing.assert_array_equal(FileArray.of_map(mapped)[3:5], mapped[3:5])
        assert FileArray.of_map(mapped[2:]) is None
        np.save(tmp_path / "f.npy", np.asfortranarray(mapped))
        assert FileArray.of_map(np.load(tmp_path / "f.npy", mmap_mode="r")) is None


def test_counts_in_files_are_the_same_shard_and_split_the_same_way(rng, monkeypatch):
    documents = corpus(rng)
    monkeypatch.setattr(filed, "BLOCK_ENTRIES", 100)
    there = FileMatrix.of(WORDS, cut(documents, [20]))
    assert shard_id(there, b"secret") == shard_id(documents, b"secret")
    assert MODEL.count(there) == 150
    parts = db.checking.hold_out(documents, rng=np.random.default_rng(0))
    filed_parts = db.checking.hold_out(there, rng=np.random.default_rng(0))
    posterior = fitted(documents).posterior
    assert MODEL.score(posterior, *filed_parts) == MODEL.score(posterior, *parts)
    both = MODEL.joined([there, documents])
    assert fitted(both).posterior == fitted([documents, documents]).posterior


class TestBatches:
    SEARCH = db.Ascent(passes=2, warm_up=2, batch=20, tolerance=0.0)

    def test_topics_of_batches_predict_better_than_as_many_whole_passes(self, rng):
        """Two passes are two steps for all documents together, and thirty for batches."""
        everything = corpus(rng, 600)
        documents, (observed, held) = everything[:300], db.checking.hold_out(everything[300:], rng=rng)
        model = db.LatentDirichletAllocation(4, MODEL.vocabulary, ascent=self.SEARCH)
        whole = db.LatentDirichletAllocation(4, MODEL.vocabulary, ascent=db.Ascent(passes=2, warm_up=2))
        scores = [each.score(fitted(documents, each).posterior, observed, held) for each in (model, whole)]
        assert scores[0] > scores[1]

    def test_one_batch_of_everything_is_a_pass(self, rng):
        documents = corpus(rng)
        together = db.LatentDirichletAllocation(4, MODEL.vocabulary, ascent=db.Ascent(passes=1, warm_up=1))
        at_once = db.LatentDirichletAllocation(4, MODEL.vocabulary, ascent=db.Ascent(passes=1, warm_up=1, batch=999))
        ours, theirs = (fitted(documents, model).posterior for model in (at_once, together))
        np.testing.assert_allclose(ours.natural["topics"], theirs.natural["topics"], rtol=1e-12)

    def test_an_interrupted_pass_keeps_the_batches_it_has_read(self, rng):
        documents = corpus(rng)
        model = db.LatentDirichletAllocation(4, MODEL.vocabulary, ascent=self.SEARCH)

        class Impatient:
            def __call__(self, reached):
                pytest.fail("the first pass was to be interrupted")

            def within(self, done, total):
                assert total == 150
                if done == 60:
                    raise KeyboardInterrupt

        with pytest.raises(FitInterrupted) as interruption:
            model.fit(documents, rng=np.random.default_rng(3), progress=Impatient())
        reached = interruption.value.fit.posterior
        start = model.fit(documents, rng=np.random.default_rng(3), progress=None)
        assert reached != start.posterior
        # Weighted as if all documents were like those that were read.
        np.testing.assert_allclose(reached.contribution["topics"].sum(), documents.sum(), rtol=1e-6)


@pytest.mark.parametrize("learned", [{"topic_prior": "learn"}, {"topics": "auto", "document_prior": "learn"}])
def test_chunks_that_can_be_read_once_are_enough_for_fits_in_turn(rng, learned):
    parts, model = cut(corpus(rng, 60), [20, 40]), replace(MODEL, **learned)
    once, often = fitted(iter(parts), model), fitted(parts, model)
    assert often.posterior.contribution["topics"].sum() > 0
    assert once.posterior.digest == often.posterior.digest


def test_what_can_be_read_once_and_is_needed_twice_is_refused(rng):
    parts = cut(corpus(rng), [50])
    posterior = fitted(parts).posterior
    read = iter(parts)
    fitted(read)
    points = db.GaussianMixture(2, dimension=2, variance=1.0)
    halves = [rng.standard_normal((30, 2)) for _ in range(2)]
    for attempt in (
        lambda: fitted(read),
        lambda: MODEL.score(posterior, iter(parts)),
        lambda: db.checking.hold_back(MODEL, iter(parts)),
        lambda: points.score(points.fit(iter(halves), rng=rng).posterior, iter(halves)),
        lambda: db.HiddenMarkov(states=2, columns={"x": "real"}).fit(iter(()), rng=rng),
    ):
        with pytest.raises(InvalidData, match="only once"):
            attempt()

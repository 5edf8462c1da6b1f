"""Data in chunks, in files and in memory maps give the same bits as in memory, and need less of it."""

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array

import decbayes as db
from decbayes.errors import InvalidData
from decbayes.inputs import filed
from decbayes.inputs.filed import FileArray, FileMatrix, Folder
from decbayes.models import counts as counting
from decbayes.models.ascent import FitInterrupted
from decbayes.network.protocol.contents import shard_id

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
    for data in (db.Chunks(lambda: parts), iter(parts), parts, FileMatrix.of(WORDS, parts)):
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
            fitted(db.Chunks(lambda wrong=wrong: [documents, wrong]))


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

    few, many = (peak(lambda n=n: db.Chunks(lambda: map(chunk, range(n)))) for n in (4, 24))
    entries = 20 * 500 * WORDS // 2
    # What grows is a number per document: where it begins, and its part of the bound.
    assert many - few < 0.25 * 8 * entries


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
    parts = db.hold_out(documents, rng=np.random.default_rng(0))
    filed_parts = db.hold_out(there, rng=np.random.default_rng(0))
    posterior = fitted(documents).posterior
    assert MODEL.score(posterior, *filed_parts) == MODEL.score(posterior, *parts)
    both = MODEL.joined([there, documents])
    assert fitted(both).posterior == fitted([documents, documents]).posterior


class TestBatches:
    SEARCH = db.Ascent(passes=2, warm_up=2, batch=20, tolerance=0.0)

    def test_topics_of_batches_predict_better_than_as_many_whole_passes(self, rng):
        """Two passes are two steps for all documents together, and thirty for batches."""
        everything = corpus(rng, 600)
        documents, (observed, held) = everything[:300], db.hold_out(everything[300:], rng=rng)
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

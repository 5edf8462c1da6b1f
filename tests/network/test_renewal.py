"""The list of revoked certificates, read again while an agent runs."""

import pytest
from groups import gaussian_charter, identities

from decbayes.network.runtime.renewal import CharterFile


@pytest.fixture
def file(tmp_path):
    charter = gaussian_charter(identities(1))
    charter.save(tmp_path / "group.toml")
    (tmp_path / "group.revoked").write_text("lost\n\nstolen \n")
    return CharterFile(tmp_path / "group.toml", charter)


class Told(list):
    def __call__(self, event, **fields):
        self.append((event, fields))


def test_a_list_that_is_gone_lets_nobody_in_again(file, tmp_path):
    told = Told()
    (tmp_path / "group.revoked").unlink()
    assert [file.renewed(told) for _ in range(3)] == 3 * [False]
    assert file.revoked == {"lost", "stolen"}
    ((event, fields),) = told
    assert event == "not_adopted"
    assert "an empty file clears it" in fields["why"]
    (tmp_path / "group.revoked").write_text("")
    assert file.renewed(told)
    assert file.revoked == frozenset()
    (tmp_path / "group.revoked").unlink()
    assert not file.renewed(told)
    assert [event for event, _ in told] == ["not_adopted", "certificates_revoked"], "without a list nothing is said"


def test_trouble_is_said_again_once_it_has_been_over(file, tmp_path):
    told, path = Told(), tmp_path / "group.revoked"
    for _ in range(2):
        path.unlink()
        assert not file.renewed(told)
        path.write_text("lost\nstolen\n")
        assert not file.renewed(told)
    assert [event for event, _ in told] == 2 * ["not_adopted"]


def test_without_a_list_nobody_is_revoked(tmp_path):
    charter = gaussian_charter(identities(1))
    charter.save(tmp_path / "group.toml")
    file, told = CharterFile(tmp_path / "group.toml", charter), Told()
    assert file.revoked == frozenset()
    assert not file.renewed(told)
    (tmp_path / "group.revoked").write_text("late\n")
    assert file.renewed(told)
    assert file.revoked == {"late"}

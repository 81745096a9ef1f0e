"""The tables in README.md and docs/: how they are made of CSV files, and that they are as these say."""

from pathlib import Path

import pytest

from scripts.tables import HOME, TableError, documents, main, read, renewed, stale, table

ABOUT = "# command: ./bench.sh replay\n# machine: 2 cores\n"
SPEED = ABOUT + 'who,steps/s,game,"change, %"\nhere,1204,pong,-5.5\nthere,97,catch,\n"a, b",97,pong,-2\n'


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "docs" / "data").mkdir(parents=True)
    (tmp_path / "docs" / "data" / "speed.csv").write_text(SPEED)
    return tmp_path / "docs" / "data"


def test_every_table_is_as_its_data_say() -> None:
    assert not stale(HOME), "make tables"


def test_every_csv_is_shown_somewhere_and_says_where_it_is_from() -> None:
    text = "".join(path.read_text() for path in documents(HOME))
    for path in (HOME / "docs" / "data").glob("*.csv"):
        assert read(path).rows
        assert f"<!-- table: {path.stem} " in text, f"{path.name} is shown nowhere"


def test_a_whole_table_and_a_part_of_it(data: Path) -> None:
    part = "| change, % | who |", "|---|---|", "| −5.5 | here |", "| −2 | a, b |"
    assert table('speed | "change, %", who | game=pong', data).splitlines() == [*part]
    assert table("speed", data).splitlines() == [
        "| who | steps/s | game | change, % |",
        "|---|---|---|---|",
        "| here | 1,204 | pong | −5.5 |",
        "| there | 97 | catch | |",
        "| a, b | 97 | pong | −2 |",
    ]


def test_only_what_stands_between_the_markers_changes(data: Path) -> None:
    first, second = "speed | who", "speed | game"
    text = f"a\n\n<!-- table: {first} -->\n{{}}<!-- end -->\nb | <!-- x -->\n"
    text += f"<!-- table: {second} -->\n{{}}<!-- end -->\n"
    new = renewed(text.format("old\n", ""), data)
    assert new == text.format(table(first, data) + "\n", table(second, data) + "\n")
    assert renewed(new, data) == new


def test_a_stale_document_is_found_and_updated(
    data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = data.parents[1]
    monkeypatch.setattr("scripts.tables.HOME", home)
    (home / "README.md").write_text("<!-- table: speed | who -->\n<!-- end -->\n")
    (home / "docs" / "other.md").write_text("no table\n")
    assert main(["--check"]) == 1
    assert capsys.readouterr().out == "README.md: tables are out of date: run make tables\n"
    assert main([]) == 0
    assert main(["--check"]) == 0
    (data / "speed.csv").write_text(SPEED.replace("here", "nowhere"))
    assert main(["--check"]) == 1
    (home / "README.md").write_text("<!-- table: sped -->\n<!-- end -->\n")
    assert main([]) == 2
    assert "README.md: cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<!-- table: speed | whom -->\n<!-- end -->\n", "no column 'whom': choose from who, steps/s"),
        ("<!-- table: speed | who | game=golf -->\n<!-- end -->\n", "no row with game=golf"),
        ("<!-- table: speed -->\nnever ends\n", "lacks its first or its last"),
    ],
)
def test_a_wrong_marker_is_told(data: Path, text: str, words: str) -> None:
    with pytest.raises(TableError, match=words.replace("|", r"\|")):
        renewed(text, data)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SPEED.replace("# machine", "# mach"), "does not say its machine"),
        (SPEED + "one\n", "a row has 1 cells and the header 4"),
        (ABOUT + "a,a\n1,2\n", "two columns have the same name"),
    ],
)
def test_a_wrong_csv_is_told(data: Path, text: str, words: str) -> None:
    (data / "speed.csv").write_text(text)
    with pytest.raises(TableError, match=words):
        read(data / "speed.csv")

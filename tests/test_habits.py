"""What GitHub, pre-commit, Docker and editors read names commands and files that exist."""

import os
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.documents import HOME

MAKEFILE = (HOME / "Makefile").read_text()
WORKFLOWS = sorted((HOME / ".github" / "workflows").glob("*.yml"))


def jobs(text: str) -> Iterator[dict[str, Any]]:
    yield from yaml.safe_load(text)["jobs"].values()


def check_command(line: str) -> None:
    """Require of one line of shell that its target of make, or its script, exists."""
    program, *words = line.split()
    if program == "make":
        for word in words:
            assert re.search(rf"^{word}:", MAKEFILE, re.MULTILINE), f"the Makefile has no target {word}"
    elif "/" in program and not program.startswith(".venv"):
        assert os.access(HOME / program, os.X_OK), f"{program} is no program"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_the_commands_of_a_workflow_exist(path: Any) -> None:
    lines = [
        line
        for job in jobs(path.read_text())
        for step in job["steps"]
        for line in step.get("run", "").splitlines()
    ]
    assert any(line.startswith("make ") for line in lines)
    for line in lines:
        check_command(line)


def test_the_tests_run_on_every_python_from_the_oldest_supported_on() -> None:
    (job,) = jobs((HOME / ".github" / "workflows" / "tests.yml").read_text())
    versions = job["strategy"]["matrix"]["python"]
    project = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]
    assert versions == ["3.11", "3.12", "3.13"]
    assert project["requires-python"] == f">={versions[0]}"


def test_the_hooks_are_the_checks_of_make_lint() -> None:
    (source,) = yaml.safe_load((HOME / ".pre-commit-config.yaml").read_text())["repos"]
    entries = [hook["entry"].removesuffix(" --force-exclude") for hook in source["hooks"]]
    recipe = MAKEFILE.partition("\nlint: dev\n")[2].replace("$(python)", ".venv/bin/python")
    lint = [line.strip().removesuffix(" --check") for line in recipe.splitlines()]
    assert entries == lint[:3]


def test_the_files_and_commands_of_the_dockerfile_exist() -> None:
    text = re.sub(r"^#.*\n", "", (HOME / "Dockerfile").read_text(), flags=re.MULTILINE)
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line]
    assert steps[0][0] == "FROM"
    for name, words in steps:
        if name == "COPY":
            assert all((HOME / word).exists() for word in words.split()[:-1])
        elif name == "RUN":
            check_command(words)
        elif name == "CMD":
            check_command(" ".join(yaml.safe_load(words)))
    ignored = (HOME / ".dockerignore").read_text().splitlines()
    assert {".git", ".venv*"} <= {*ignored}
    assert all(
        (HOME / line.removeprefix("!")).exists()
        for line in ignored
        if line.startswith("!") and "*" not in line
    )


def test_the_changelog_has_the_sections_of_keep_a_changelog() -> None:
    text = (HOME / "CHANGELOG.md").read_text()
    known = ["Added", "Changed", "Removed", "Fixed"]
    unreleased, *versions = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert unreleased.startswith("Unreleased\n")
    assert all(re.match(r"\d+\.\d+\.\d+ — \d{4}-\d\d-\d\d\n", version) for version in versions)
    sections = re.findall(r"^### (.+)$", unreleased, re.MULTILINE)
    assert sections == [name for name in known if name in sections]

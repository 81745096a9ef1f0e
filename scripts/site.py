"""Builds the documentation site, with the API reference, into build/site: `make docs`.

The pages in docs/ link to README files, source files and pictures outside of docs/. Therefore all of
these are copied to build/docs with the same relative paths; a source file becomes a page with its text.
In Zensical's strict mode, a dead link or anchor is an error, and so is a docstring that it cannot parse.
Links are checked nowhere else.
"""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
STAGE = PROJECT / "build" / "docs"
CODE = r"(?P<ticks>`+).+?(?<!`)(?P=ticks)(?!`)"  # a span or a block: `forward[name](*inputs)` is not a link
LINK = re.compile(rf"{CODE}|\]\((?!https?:|#)(?P<path>[^)#\s]+)(?:#[^)\s]+)?\)", re.DOTALL)
NAVIGATION = {
    "Start": ["docs/getting_started.md", "docs/guide.md", "docs/from_simple_dqn.md", "docs/faq.md",
              "docs/upgrading.md"],
    "Choose": ["docs/algorithms.md", "docs/settings.md", "docs/compare.md", "docs/recipes.md", "docs/gpu.md",
               "docs/cluster.md"],
    "Judge": [
        "docs/results.md", "docs/curves.md", "docs/performance.md", "docs/networks.md", "docs/reliability.md",
        "docs/safety.md", "docs/deviations.md", "docs/protocols.md", "docs/comparison.md",
    ],
    "Change": [
        "docs/tour.md", "docs/modify.md", "docs/api.md", "docs/emulator.md", "docs/design.md", "docs/csv.md",
        "CONTRIBUTING.md",
    ],
}  # fmt: skip


def modules() -> list[str]:
    """Return the modules and packages directly in `simple_dqn`, which have a page in the API reference."""
    source = PROJECT / "src" / "simple_dqn"
    names = [path.stem for path in source.glob("*.py") if path.stem != "__init__"]
    names += [path.parent.name for path in source.glob("*/__init__.py")]
    return sorted(set(names) - {"api"})


def public_names() -> list[str]:
    """Return the names for the page of the public API: the module `api`, and other names of `simple_dqn`."""
    sys.path.insert(0, str(PROJECT / "src"))
    api = importlib.import_module("simple_dqn")
    things = [getattr(api, name) for name in api.__all__ if name != "__version__"]
    names = [(thing.__module__, thing.__qualname__) for thing in things]
    return list(dict.fromkeys(one if one.endswith(".api") else f"{one}.{name}" for one, name in names))


def pages() -> list[Path]:
    """Return the paths of the project's Markdown pages, relative to its folder."""
    docs = sorted(path.relative_to(PROJECT) for path in (PROJECT / "docs").rglob("*.md"))
    folders = [Path(folder, "README.md") for folder in ("roms", "snapshots", "results", "videos")]
    return [Path("README.md"), Path("CONTRIBUTING.md"), Path("CHANGELOG.md"), *folders, *docs]


def stage_page(page: Path) -> None:
    """Copy a page, and the pictures and source files that it links to."""

    def staged(link: re.Match[str]) -> str:
        if link["ticks"]:
            return link[0]
        target = (PROJECT / page.parent / link["path"]).resolve()
        if target.suffix == ".md" or target.is_dir():
            return link[0]
        if not target.is_file():
            sys.exit(f"{page}: a link leads to a missing file, {link['path']}")
        inside = target.relative_to(PROJECT)
        if target.suffix in (".png", ".html"):
            shutil.copyfile(target, place(inside))
            return link[0]
        stage_source(inside)
        return f"]({link['path']}.md)"

    write(page, LINK.sub(staged, (PROJECT / page).read_text(encoding="utf-8")))


def stage_source(source: Path) -> None:
    """Write a page that shows a source file."""
    text = (PROJECT / source).read_text(encoding="utf-8")
    kind = "python" if source.suffix == ".py" else "text"
    write(source.with_name(f"{source.name}.md"), f"# {source}\n\n````{kind}\n{text}````\n")


def stage_reference() -> None:
    """Write the pages of the API reference: one of the public names, and one for each module."""
    public = "".join(f"::: {name}\n    options: {{heading_level: 2}}\n\n" for name in public_names())
    note = "The names of `import simple_dqn` are public and stable; the other pages are for contributors."
    write(Path("reference", "simple_dqn.md"), f"# simple_dqn\n\n{note}\n\n{public}")
    for module in modules():
        write(Path("reference", f"{module}.md"), f"# simple_dqn.{module}\n\n::: simple_dqn.{module}\n")


def write(path: Path, text: str) -> None:
    """Write a staged file."""
    place(path).write_text(text, encoding="utf-8")


def place(path: Path) -> Path:
    """Return the place of a staged file, in a folder that is there."""
    target = STAGE / path
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def configuration() -> str:
    """Return the settings of the site in the form of mkdocs.yml, which Zensical reads."""
    sections = "".join(
        f"  - {title}:\n" + "".join(f"    - {page}\n" for page in listed)
        for title, listed in NAVIGATION.items()
    )
    reference = "".join(f"    - reference/{module}.md\n" for module in ["simple_dqn", *modules()])
    return f"""site_name: Simple-DQN
docs_dir: docs
site_dir: site
theme: {{font: false, features: [search.suggest, navigation.sections]}}
plugins:
  - search
  - mkdocstrings:
      handlers:
        python:
          paths: [../src]
          options: {{docstring_style: google, show_submodules: true, show_source: false}}
markdown_extensions: [attr_list, admonition, tables, toc, pymdownx.highlight, pymdownx.superfences]
nav:
  - README.md
{sections}  - Reference:
{reference}"""


def main() -> int:
    """Stage the pages, and build the site."""
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in pages():
        stage_page(page)
    stage_reference()
    subprocess.run([sys.executable, "scripts/curves.py"], cwd=PROJECT, check=True)
    shutil.copyfile(STAGE.parent / "curves.html", STAGE / "docs" / "curves.html")
    settings = STAGE.parent / "mkdocs.yml"
    settings.write_text(configuration(), encoding="utf-8")
    zensical = str(Path(sys.executable).with_name("zensical"))
    build = [zensical, "build", "--strict", "--clean", "--config-file", settings.name]
    done = subprocess.run(
        build, cwd=STAGE.parent, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout, end="")
    if done.returncode or "griffe:" in done.stdout:  # warnings about docstrings
        return 1
    print(f"the site: {Path(sys.executable)} -m http.server --directory {STAGE.parent / 'site'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

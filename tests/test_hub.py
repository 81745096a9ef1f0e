"""Agents on the Hugging Face Hub, for which a server of the test stands in, and as safetensors."""

import base64
import json
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import simple_dqn
from simple_dqn import main
from simple_dqn.snapshot import Snapshot
from tests.command_line import NEON, PROJECT, Capsys, Patch, Told


@pytest.mark.usefixtures("finished")
def test_weights_as_safetensors(told: Told) -> None:
    safetensors = pytest.importorskip("safetensors")
    folder = Path("snapshots").rename("models--mine")  # a name of huggingface_hub's, but the user's folder
    told("snapshot", "export", f"{folder}/catch_1.pkl", "--safetensors")
    saved = Snapshot.load(folder / "catch_1.pkl")
    with safetensors.safe_open(folder / "catch_1.safetensors", "numpy") as file:
        assert set(file.keys()) == saved.weights.keys()
        assert all((file.get_tensor(name) == array).all() for name, array in saved.weights.items())
        facts = file.metadata()
    wanted = {"game": "catch", "epoch": "1", "batch_size": "4", "dueling": "false"}
    assert {name: facts[name] for name in wanted} == wanted
    assert "--onnx --safetensors" in told("snapshot", "export", "snapshots/catch_1.pkl", code=2)


SHA = "0123456789" * 4


class Stub(BaseHTTPRequestHandler):
    """As much of the Hub as uploads and downloads of a model need."""

    repos: dict[str, dict[str, bytes]]  # USER/REPO -> file -> content
    sizes: dict[str, int]  # of files, where it is wrong

    def log_message(self, *_: object) -> None: ...

    def answer(self, content: Any, code: int = 200) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in {"Content-Length": len(body), "X-Repo-Commit": SHA, "ETag": f'"{SHA}"'}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/models").strip("/")
        repo, _, file = path.partition(f"/resolve/{SHA}/")
        files = self.repos.get(repo)
        if files is None or (file and file not in files):
            self.answer({"error": "not found"}, 404)
        elif file:
            self.answer(files[file])
        else:
            names = {name: self.sizes.get(name, len(content)) for name, content in files.items()}
            siblings = [{"rfilename": name, "size": size} for name, size in names.items()]
            self.answer({"id": repo, "sha": SHA, "siblings": siblings})

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lines = [json.loads(line) for line in body.splitlines()]
        repo = self.path.removeprefix("/api/models/").partition("/preupload")[0].partition("/commit")[0]
        if self.path == "/api/repos/create":
            name = f"{lines[0]['organization']}/{lines[0]['name']}"
            self.repos[name] = {}
            self.answer({"url": f"http://{self.headers['Host']}/{name}"})
        elif "/preupload/" in self.path:
            files = [{"path": one["path"], "uploadMode": "regular"} for one in lines[0]["files"]]
            self.answer({"files": [{**one, "shouldIgnore": False} for one in files]})
        elif "/commit/" in self.path and repo == "me/full":
            self.answer({"error": "no space is left"}, 507)
        elif "/commit/" in self.path:
            files = [one["value"] for one in lines if one["key"] == "file"]
            self.repos[repo] = {one["path"]: base64.b64decode(one["content"]) for one in files}
            self.answer({"commitOid": SHA, "commitUrl": f"http://{self.headers['Host']}/{repo}/commit/{SHA}"})
        else:
            self.answer({})


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: Patch) -> Iterator[type[Stub]]:
    """Serve a hub without repositories, and let huggingface_hub, where it is installed, know no other."""
    pytest.importorskip("huggingface_hub")
    Stub.repos, Stub.sizes = {}, {}
    with ThreadingHTTPServer(("127.0.0.1", 0), Stub) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        monkeypatch.setenv("HF_TOKEN", "hf_of_a_test")
        for name in [one for one in sys.modules if one.partition(".")[0] == "huggingface_hub"]:
            monkeypatch.delitem(sys.modules, name)
        yield Stub
        server.shutdown()


def test_an_agent_is_pushed_and_used(
    finished: Path, hub: type[Stub], capsys: Capsys, tmp_path: Path, told: Told
) -> None:
    words = ["--games", "1", "--push", "me/catch"]
    assert main.run(["snapshot", "card", "snapshots/catch_1.pkl", *words]) == 0
    assert capsys.readouterr().out.endswith(f"{PROJECT}/play.sh hf://me/catch\n")
    folder = Path("snapshots/catch_1_card")
    assert hub.repos["me/catch"] == {file.name: file.read_bytes() for file in folder.iterdir()}
    assert '`simple_dqn.load("hf://me/catch")`' in (folder / "README.md").read_text()
    one, other = simple_dqn.load("hf://me/catch"), simple_dqn.load("snapshots/catch_1.pkl")
    states = np.random.default_rng(0).integers(256, size=(3, 4, 36, 36), dtype=np.uint8)
    assert (one.q_values(states) == other.q_values(states)).all()
    shutil.rmtree("snapshots")
    for command, made in {
        "test ADDRESS --play_games 1 --json score.json": "score.json",
        "nvis ADDRESS": "results/catch.html",
        "snapshot export ADDRESS --safetensors": "snapshots/catch_1.safetensors",
        "train catch more --config results/catch.yaml --load_weights ADDRESS": "snapshots/catch_more_1.pkl",
        "resume ADDRESS --epochs 2": "snapshots/catch_trained_2.pkl",
    }.items():
        assert main.run(command.replace("ADDRESS", "hf://me/catch/catch_1.pkl").split()) == 0, command
        assert Path(made).is_file()
    written = {file.name for file in (tmp_path / "hf").rglob("*.*") if ".pkl" in file.name}
    assert written == {"catch_1.pkl"}
    said = told("snapshot", "card", "hf://me/catch", "it's full", *words[:-1], "me/full", code=2)
    assert said.splitlines()[-1].endswith("""hf upload me/full 'it'"'"'s full'""")
    assert Path("it's full/README.md").is_file()


def test_an_address_chooses_no_path(hub: type[Stub], home: Path, told: Told) -> None:
    hub.repos |= {
        "a/none": {"../../x.pkl": b"", "README.md": b"", "in/x.pkl": b"", "x.pkl\n": b""},
        "a/two": {"x.pkl": b"", "y.pkl": b""}, "a/large": {"large.pkl": b""}, "a/bad": {"x.pkl": b"PK\3\4"},
        "a/code": {"x.pkl": b"\x80\x02cos\nabort\n)R."},
    }  # fmt: skip
    hub.sizes["large.pkl"] = 200 << 20
    cases = {
        "is not an address": "hf: hf:// hf:/a/b hf://a hf://a/.. hf://../b hf://a/b/c/x.pkl "
        "hf://a/b/../x.pkl hf://a/b/x.txt hf://a%2Fb/c hf://a/b/ hf://a/b@main hf://./b hf://a/b..c",
        "it has no snapshot": "hf://a/none", "it has x.pkl, y.pkl": "hf://a/two hf://a/two/z.pkl",
        "more than": "hf://a/large", "cannot be used": "hf://a/bad hf://a/code", "is not a snapshot": "hf://a/two/x.pkl",
        "404": "hf://a/absent",
    }  # fmt: skip
    for hint, addresses in cases.items():
        for address in addresses.split():
            (line,) = told("snapshot", "show", address, code=2).splitlines()
            assert hint in line, (address, line)
    assert [path.name for path in home.iterdir()] == ["hf"]
    for repo in ("a", "../b", "a/b/c", "a/..", "a/b..c", ""):
        assert "USER/REPO" in told("snapshot", "card", str(NEON), "--push", repo, code=2)

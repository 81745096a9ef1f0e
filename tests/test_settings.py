"""The settings of a command: flags and their rules, presets, files, and the order of these sources."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from simple_dqn import command_line, main, rules
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import SETTINGS, Config, Share
from simple_dqn.config import read as read_settings
from simple_dqn.config import words as as_flags
from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from simple_dqn.presets import PRESETS
from simple_dqn.snapshot import Snapshot
from simple_dqn.verbs.play import ONE_GAME, PLAYS_ONLY, settings_of_agent
from simple_dqn.verbs.settings import resolve
from tests.command_line import PROJECT, Capsys, Start, Told, catch, read

# Flags of a run in which every source below can be told from the others.
RUN = {
    "workers": 8, "processes": 2, "schedule": "concurrent", "synchronize": True, "random_seed": 7,
    "frame_skip": 3,
}  # fmt: skip
QUICK = PRESETS["quick"]
ALONE = {"replay_size": 1_000_000, "schedule": "serial", "synchronize": None, "train_steps": 0}
ONE = {**ALONE, "workers": 1, "processes": 0, "threads": 1, "random_seed": None, "emulator": "ale"}
APE_X = {"exploration_rate_start": 0.4, "exploration_rate_end": 0.4, "exploration_spread": 7.0}
ACTORS = {"cluster": "local", "actors": 2, "emulator": "ale"}
SERIAL = {"schedule": "serial", "processes": 0}


# flags given by hand, flags of the snapshot, what the verb fixes -> settings unlike the defaults
@pytest.mark.parametrize(("given", "snapshot", "fixed", "expected"), [
    ({}, None, {}, QUICK),
    ({"preset": "simple_dqn", "workers": 3}, None, {"csv_file": "a"}, {"workers": 3, "csv_file": "a"}),
    ({"learning_rate": 0.5, "csv_file": "b"}, None, {"csv_file": "a"},
     {**QUICK, "learning_rate": 0.5, "csv_file": "b"}),
    ({"target_steps": 0}, None, {}, {**QUICK, **SERIAL, "target_steps": 0}),
    ({"workers": 1}, None, {}, {**QUICK, **SERIAL, "workers": 1}),
    ({"train_frequency": 16}, None, {}, {**QUICK, **SERIAL, "train_frequency": 16}),
    ({"concurrent": True}, None, {}, {**QUICK, "schedule": "concurrent", "processes": 0}),
    ({"schedule": "rollouts"}, None, {}, {**QUICK, "schedule": "rollouts", "rollout_steps": 16}),
    ({"workers": 1, "overlap": True}, None, {}, {**QUICK, "workers": 1, "processes": 0}),
    ({"preset": "rainbow", "double": False}, None, {}, {**PRESETS["rainbow"], "target_rule": "max"}),
    ({"preset": "fast_dqn"}, None, {}, PRESETS["fast_dqn"]),
    ({"preset": "fast_dqn", "cluster": "auto"}, None, {},
     {**PRESETS["fast_dqn"], **APE_X, "cluster": "auto", "schedule": "serial", "emulator": "ale"}),
    ({"cluster": "local", "actors": 2}, None, {}, {**QUICK, **APE_X, **ACTORS, **SERIAL}),
    ({**ACTORS, "exploration_spread": 1.0}, None, {},
     {**QUICK, **APE_X, **ACTORS, **SERIAL, "exploration_spread": 1.0}),
    ({"cluster": "local", "preset": "nature"}, None, {},
     {**PRESETS["nature"], "cluster": "local", "emulator": "ale"}),
    ({}, RUN, {}, RUN),
    ({"epochs": 3}, RUN, {"random_seed": None, "epochs": 2}, {**RUN, "random_seed": None, "epochs": 3}),
    ({"random_seed": 1, "concurrent": True}, RUN, PLAYS_ONLY,
     {**RUN, **ALONE, "random_seed": 1, "schedule": "concurrent"}),
    ({}, RUN, ONE_GAME, {**RUN, **ONE}),
    ({"random_starts": 5}, None, {**ONE_GAME, "random_starts": 0},
     {**QUICK, **ONE, "sampler": "uniform", "random_starts": 5}),
])  # fmt: skip
def test_the_later_source_wins(
    given: dict[str, Any], snapshot: dict[str, Any] | None, fixed: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert resolve(given, snapshot, fixed).flags() == {**Config().flags(), **expected}


def help_of(capsys: Capsys, *words: str) -> list[str]:
    with pytest.raises(SystemExit) as end:
        main.run(words)
    assert not end.value.code
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("verb", VERBS)
def test_the_help_of_a_verb_fits_on_a_screen(verb: str, capsys: Capsys) -> None:
    lines = help_of(capsys, verb, "--help")
    assert lines[0].startswith(f"usage: simple-dqn {verb} ")
    assert help_of(capsys, verb, "-help") == lines
    if verb not in ("plot", "doctor", "snapshot"):
        assert len(lines) <= 25
        assert max(map(len, lines)) <= 110
        (example,) = [line.split()[3:] for line in lines if line.startswith(f"example: simple-dqn {verb} ")]
        assert verb != "resume" or not [one for one in rules.KEPT_ON_RESUME if f"--{one} " in str(lines)]
        read(verb, example)
        assert all((PROJECT / word).exists() for word in example if word.startswith("snapshots/trained"))


def test_help_shows_the_defaults_and_help_all_every_setting(capsys: Capsys) -> None:
    for verb, default in (("train", "4"), ("resume", "the snapshot's"), ("play", "the snapshot's")):
        (line,) = [line for line in help_of(capsys, verb, "--help", "all") if "--history_length " in line]
        assert line.endswith(f"(default: {default})")
    text = "\n".join(help_of(capsys, "train", "--help", "all"))
    assert not [name for name in SETTINGS.keys() - {"game", "imports"} if f"--{name} " not in text]


def test_a_share_of_the_run_becomes_a_number_that_a_longer_run_keeps() -> None:
    length = {"epochs": 10, "train_steps": 1000, "train_frequency": 5, "train_repeat": 2}
    shares = ["--exploration_decay_steps", "10%", "--learning_rate_decay_updates=0.5%"]
    config = Config.from_flags({**parser_of_settings("train", "").parse(shares), **length})
    assert config.agent.exploration_decay_steps == 1000
    assert config.network.learning_rate_decay_updates == 20
    assert Config.from_flags({**config.flags(), "epochs": 20}).agent.exploration_decay_steps == 1000
    assert as_flags({"exploration_decay_steps": Share(12.5)}) == ["--exploration_decay_steps=12.5%"]


def test_load_weights_may_name_the_snapshot_itself() -> None:
    given = {"snapshot": Path("snapshots/pong_1.pkl"), "load_weights": "./snapshots/pong_1.pkl"}
    assert resolve(given, {}).run.load_weights == given["load_weights"]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_valid_in_training_and_in_play(name: str) -> None:
    rules.check(Config.from_flags(PRESETS[name]))
    assert parse(*as_flags(PRESETS[name])) == PRESETS[name]
    trained = Config.from_flags({"game": "pong", **PRESETS[name]}).flags()
    for fixed in (PLAYS_ONLY, ONE_GAME):
        for given in ({}, {"workers": 3}):
            settings_of_agent(Path("pong_1.pkl"), Snapshot("pong", 1, 6, 0, trained, {}), given, fixed)


def test_the_page_of_settings_has_every_preset_as_it_is() -> None:
    page = (PROJECT / "docs" / "settings.md").read_text(encoding="utf-8")
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if "|" in line]
    start = next(number for number, cells in enumerate(lines) if cells[0] == "setting")
    header, rows = lines[start], lines[start + 2 :]
    assert header[1:] == list(PRESETS)
    names = [row[0].strip("`") for row in rows]
    assert set(names) == {name for preset in PRESETS.values() for name in preset}
    defaults = Config().flags()
    for name, row in zip(names, rows, strict=True):
        for preset, cell in zip(PRESETS, row[1:], strict=True):
            plain = preset == "simple_dqn"
            assert not plain or name not in PRESETS[preset]
            if not plain or name != "synchronize":  # its default depends on the number of workers
                settings = defaults if plain else PRESETS[preset]
                stated = read_settings({name: cell.replace(",", "")} if cell else {})
                assert stated == ({name: settings[name]} if name in settings else {}), name


def test_a_run_writes_its_settings_to_repeat_it(tmp_path: Path, start: Start, capsys: Capsys) -> None:
    assert start(".", "train", *catch(preset="nature")) == 0
    assert capsys.readouterr().err.splitlines()[0].endswith("Preset nature")
    file = tmp_path / "results" / "catch.yaml"
    text = file.read_text()
    assert "preset: nature\n" in text
    assert "  epochs: 1  # nature: 200\n" in text
    assert "  n_step: 1\n" in text
    assert start(".", "train", "catch", "again", "--config", str(file)) == 0
    one, other = (Snapshot.load(tmp_path / "snapshots" / f"catch{name}_1.pkl") for name in ("", "_again"))
    assert one.fingerprint == other.fingerprint
    assert start(".", "resume", "snapshots/catch_1.pkl", "--epochs", "2") == 0
    assert "Preset nature\n" in capsys.readouterr().err
    assert "preset: nature\n" in file.read_text()
    assert "  epochs: 2  # nature: 200\n" in file.read_text()
    assert {path.name for path in tmp_path.glob("results/*.yaml")} == {"catch.yaml", "catch_again.yaml"}
    # Without its checkpoints and its file, it goes on from the weights, and the defaults are the measure.
    shutil.rmtree(tmp_path / "snapshots" / "catch_checkpoint")
    file.unlink()
    assert start(".", "resume", "snapshots/catch_2.pkl", "--epochs", "3") == 0
    assert "preset: simple_dqn\n" in file.read_text()
    assert "  color_averaging: false  # simple_dqn: true\n" in file.read_text()


# Lists of lists, the last of 2**40 words.
BOMB = f"machine: [&a0 x, {', '.join(f'&a{n} [*a{n - 1}, *a{n - 1}]' for n in range(1, 41))}]\n"


@pytest.mark.parametrize(("text", "words"), [
    ("a: [", "x.yaml, line 1: "), ("epochs: 1\nlabel: \a\n", "x.yaml, line 2: "),
    ('game: "\\UFFFFFFFF"\n', "x.yaml: "),
    ("epochs: 1\nworkers: 2\nepochs: 1\n", "epochs is in line 1 and again in line 3"),
    ("epochs: 1\nsettings:\n  epochs: 2\n", "epochs is in line 1 and again in line 3"),
    (f"{BOMB}epochs: *a40\n", "epochs has no single value"), (f"{BOMB}preset: *a40\n", "no preset is []"),
    (f"{BOMB}settings: *a40\n", "there are no settings"), (f"{BOMB}? *a40\n", "unknown setting []"),
    *((text, "there are no settings") for text in ("", "settings: 3\n", "[epochs]\n", "epochs\n")),
    ("epoks: 1\n", "unknown setting epoks: did you mean epochs"),
    ("settings:\n  epochs: [1]\n", "epochs has no single value"),
    ("preset: [quick]\nsettings:\n  epochs: 1\n", "no preset is []: give simple_dqn"),
    ("settings:\n  preset: none\n", "no preset is 'none'"),
    ('settings:\n  "\\e[2J\\n": 1\n', r"unknown setting \x1b[2J\n"),
    *((f"settings:\n  epochs: {word}\n", "not a whole number") for word in ("0x10", "1:30", "~", "many")),
    (f"settings:\n  random_seed: {'9' * 5000}\n", "random_seed: "),
    ("settings:\n  epochs: !!python/object/apply:os.abort []\n", "epochs has no single value"),
    ("settings:\n  epochs: !!python/name:os.abort x\n", "epochs: 'x' is not"),
    ("a: &a [x, x]\nb: &b [*a, *a]\nsettings:\n  epochs: *b\n", "unknown setting a"),
    ("settings: &s\n  epochs: 1\n  <<: *s\n", "unknown setting <<"),
    ("settings: &s\n  settings: *s\n", "settings is in line 1 and again in line 2"),
    ("settings: " + "{a: " * 5000, "nested too deeply"),
    ("settings:\n  epochs: 1\n" + "#" * 70_000, "70,022 bytes, more than 65,536"),
    ('settings:\n  load_weights: "a\\0b"\n', "load_weights: "),
    ('settings:\n  load_weights: "\\ud83d"\n', "load_weights: "),
    ("settings:\n  game: pong\n  environment: /tmp/x.py:X\n", "environment: invalid choice"),
])  # fmt: skip
def test_a_foreign_file_is_refused_in_a_line(tmp_path: Path, capsys: Capsys, text: str, words: str) -> None:
    (tmp_path / "x.yaml").write_text(text)
    assert main.run(["train", "pong", "--config", str(tmp_path / "x.yaml"), "--print_config"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert words in line


@pytest.mark.parametrize("word", [
    "/tmp/\N{GRINNING FACE}/ä.rom", "a: #b", "\x1b[2J\n", "\x85\u2028", 'a"\\b', " ", "~", "010", "-", "null",
    "\ue000",
])  # fmt: skip
def test_a_word_is_read_as_it_was_written(tmp_path: Path, word: str) -> None:
    config = Config.from_flags({"load_weights": word, "game": word})
    (tmp_path / "x.yaml").write_text(command_line.listing(config, "quick"), "utf-8")
    found = command_line.read(str(tmp_path / "x.yaml"))
    assert (found["load_weights"], found["game"]) == (word, word)


@pytest.mark.parametrize(("file", "words", "preset", "others"), [
    ("", "", "quick", {}),
    ("", "--preset rainbow --n_step 5 --noisy false", "rainbow", {"n_step": 5, "noisy": False}),
    ("preset: nature\nsettings:\n  n_step: 2", "--preset rainbow", "rainbow", {"n_step": 2}),
    ("preset: rainbow\nsettings:\n  noisy: false", "--n_step 5", "rainbow", {"n_step": 5, "noisy": False}),
])  # fmt: skip
def test_flags_override_a_file_and_a_file_overrides_a_preset(
    tmp_path: Path, start: Start, capsys: Capsys, file: str, words: str, preset: str,
    others: dict[str, Any],
) -> None:  # fmt: skip
    path = tmp_path / "x.yaml"
    path.write_text(file)
    config = ["--config", str(path)] if file else []
    assert start("home", "train", "pong", *config, "--print_config", *words.split()) == 0
    assert not list(Path().iterdir())
    path.write_text(capsys.readouterr().out)
    assert all(f"  {name}: " in path.read_text() for name in Config().flags())
    found = command_line.read(str(path))
    assert found == {**found, **PRESETS[preset], **others, "preset": preset}


@pytest.mark.parametrize(("file", "game", "expected"), [
    ("environment: gym\ngame: CartPole-v1", "pong", "ale"),
    ("game: CartPole-v1", "", "gym"),
    ("game: catch", "", "catch"),
    ("environment: ale\ngame: breakout", "", "ale"),
])  # fmt: skip
def test_the_game_chooses_the_kind_of_environment(
    tmp_path: Path, start: Start, capsys: Capsys, file: str, game: str, expected: str
) -> None:
    (tmp_path / "x.yaml").write_text(file)
    assert start("home", "train", *game.split(), "--config", "../x.yaml", "--print_config") == 0
    shown = capsys.readouterr().out
    assert f"\n  environment: {expected}" in shown
    assert f"\n  game: {game or file.split()[-1]}" in shown


def test_print_config_names_the_source_of_each_value(tmp_path: Path, start: Start, capsys: Capsys) -> None:
    (tmp_path / "mine.yaml").write_text("preset: strong\nepochs: 3\nlearning_rate: 0.1\nprioritized: true\n")
    words = "--rollout_steps 0 --double --learning_rate 1e-3 --target_steps 99 --workers 3 --print_config"
    assert start("home", "train", "CartPole-v1", "--config", "../mine.yaml", *words.split()) == 0
    lines = {
        "learning_rate: 0.001  # flag; strong: 0.00025", "target_rule: double  # flag; strong: max",
        "epochs: 3  # file ../mine.yaml; strong: 200", "batch_size: 128  # preset strong",
        "sampler: prioritized  # file ../mine.yaml; strong: uniform", "n_step: 1  # default",
        "frame_skip: 1  # derived; strong: 4", "rollout_steps: 16  # derived",
        "learning_rate_decay_updates: 4800  # preset strong; strong: 100%",
        "schedule: rollouts  # preset strong",
    }  # fmt: skip
    assert not lines - {line.strip() for line in capsys.readouterr().out.splitlines()}
    vector = {"discount_rate: 0.98  # preset vector", "sampler: uniform  # default"}
    for game, lines in ("CartPole-v1", vector), ("pong", {"rollout_steps: 0  # default"}):
        assert start("home", "train", game, "--print_config") == 0  # with its usual preset
        assert not lines - {line.strip() for line in capsys.readouterr().out.splitlines()}


def test_a_file_chooses_no_path_to_write_to_and_no_address(
    tmp_path: Path, start: Start, told: Told, capsys: Capsys
) -> None:
    paths = ("csv_file", "save_weights_prefix", "record_screen_path", "record_sound_filename")
    (tmp_path / "x.yaml").write_text("".join(f"{name}: /tmp/x\n" for name in paths) + "epochs: 3\n")
    assert start("home", "train", "pong", "--config", "../x.yaml", "--print_config") == 0
    shown = capsys.readouterr().out
    assert "epochs: 3  # file" in shown
    assert "/tmp/x" not in shown
    (tmp_path / "x.yaml").write_text("cluster: 10.0.0.1:6379\n")
    words = ("train", "pong", "--config", "../x.yaml", "--print_config")
    assert "give --cluster 10.0.0.1:6379" in told(*words, code=2)
    for mine in ("10.0.0.1:6379", "local"):
        told(*words, "--cluster", mine)


# Names and defaults that simple_dqn promised, and those of the papers of PQN, Munchausen DQN and C51.
PROMISED = {
    "environment": "ale", "display_screen": False, "frame_skip": 4, "repeat_action_probability": 0,
    "minimal_action_set": True, "screen_width": 84, "screen_height": 84, "record_screen_path": None,
    "record_sound_filename": None, "replay_size": 1_000_000, "history_length": 4, "learning_rate": 0.00025,
    "discount_rate": 0.99, "batch_size": 32, "optimizer": "rmsprop", "decay_rate": 0.95, "clip_error": 1,
    "min_reward": -1, "max_reward": 1, "backend": "gpu", "device_id": 0,
    "datatype": "float32", "exploration_rate_start": 1, "exploration_rate_end": 0.1,
    "exploration_decay_steps": 1_000_000, "exploration_rate_test": 0.05, "train_frequency": 4,
    "train_repeat": 1, "target_steps": 10_000, "random_starts": 30, "random_steps": 50_000,
    "train_steps": 250_000, "test_steps": 125_000, "epochs": 200, "start_epoch": 0, "play_games": 0,
    "load_weights": None, "save_weights_prefix": None, "csv_file": None, "random_seed": None,
    "log_level": "INFO", "color_averaging": True, "visualization_filters": 4, "visualization_file": None,
    "max_game_frames": 108_000, "trace_decay": 0.65, "munchausen_alpha": 0.9, "munchausen_tau": 0.03,
    "munchausen_floor": -1, "v_min": -10, "v_max": 10, "atoms": 51,
}  # fmt: skip


def parse(*arguments: str) -> dict[str, Any]:
    return parser_of_settings("train.sh", "Train.").parse(arguments)


def test_promised_flags_and_defaults() -> None:
    flags = Config().flags()
    assert {name: flags[name] for name in PROMISED} == PROMISED
    given = {name: value for name, value in Config().flags().items() if name not in ("game", "imports")}
    assert {"game": "", "imports": None, **parse(*as_flags(given))} == Config().flags()
    # A memory that actors fill needs no random steps, nor do rollouts.
    rules.check(Config.from_flags({"workers": 8, "random_steps": 0, "cluster": "local"}))
    rules.check(Config.from_flags(read_settings(dict(flag.split("=") for flag in ROLLOUTS.split()))))


@pytest.mark.parametrize(("words", "given"), [
    ("", {}),
    *((f"--epochs {word}", {"epochs": 1000}) for word in ("1000", "1_000", "1e3", "1.0e3", "1000.0")),
    *((f"--color_averaging {word}", {"color_averaging": True}) for word in ("yes", "true", "t", "1", "YES")),
    *((f"--color_averaging {word}", {"color_averaging": False}) for word in ("no", "false", "f", "0", "No")),
    ("--tensorboard --frame_skip 2", {"tensorboard": True, "frame_skip": 2}),
    ("--tensorboard scalars", {"tensorboard": True}),
    ("--tensorboard 1", {"tensorboard": True}),
    ("--tensorboard histograms", {"tensorboard": "histograms"}),
    ("--tensorboard no", {"tensorboard": False}),
    ("--random_seed 0", {"random_seed": 0}),
    ("--random_seed 12345678901234567891", {"random_seed": 12345678901234567891}),
    ("--random_seed none", {"random_seed": None}),
    ("--exploration_decay_steps 10%", {"exploration_decay_steps": Share(10)}),
])  # fmt: skip
def test_a_value_is_written_in_many_ways(words: str, given: dict[str, Any]) -> None:
    found = parse(*words.split())
    assert found == given
    assert [*map(type, found.values())] == [*map(type, given.values())]


@pytest.mark.parametrize(("arguments", "words"), [
    ("--lr 1", "did you mean --learning_rate?"),
    ("--buffer-size=1", "did you mean --replay_size?"),
    ("--epoch 1", "did you mean --epochs?"),
    ("--Learning_Rate 1", "did you mean --learning_rate?"),
    ("--slip_probability 1", "unknown flag --slip_probability"),
    *((f"--epochs {word}", "not a whole number")
      for word in ("1.5", "1e-3", "inf", "nan", "1e400", "9" * 400, "many")),
    ("--frame_skip 0", "argument --frame_skip: 0 is too small: give at least 1"),
    ("--exploration_rate_end 2", "--exploration_rate_end: 2 is too large: give at most 1"),
    ("--learning_rate 0", "--learning_rate: 0 is too small: give more than 0"),
    ("--learning_rate nan", "not a number"),
    ("--clip_error inf", "inf is not finite"),
    ("--tensorboard images", "'images' is not one of"),
    ("--optimizer sgd", "invalid choice: 'sgd' (choose from rmsprop"),
    ("--batch_norm maybe", "'maybe' is not one of"),
    ("stray", "unexpected argument 'stray'"),
    *((f"--exploration_decay_steps={word}", "decay_steps") for word in ("101%", "-1%", "%", "x%", "nan%")),
])  # fmt: skip
def test_a_wrong_flag_or_value_is_a_line(arguments: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(*arguments.split())
    assert "\n" not in str(caught.value)
    assert words in str(caught.value)


CONTRADICTIONS = """
replay_size=39 workers=5 n_step=3 => 7 screens | 5 game(s) | at least 40
rollout_steps=1 target_steps=0 => --rollout_steps 1 | at least 2
n_step=3 min_reward=0.5 => --n_step 3 | --min_reward 0.5 | limits with 0 between
n_step=2 max_reward=-0.5 => --n_step 2 | --max_reward -0.5
replay_size=100 batch_size=101 => --batch_size 101 | --replay_size 100
random_steps=2 train_frequency=1 => hold 4 screens | needs 5 | raise --random_steps
random_steps=3 train_frequency=1 n_step=2 => hold 5 screens | needs 6
random_steps=2 concurrent=true target_steps=1000 train_steps=1000 => hold 3 screens | needs 5
concurrent=true target_steps=0 => --schedule concurrent | --target_steps above 0
concurrent=true workers=3 => --workers 3 | --train_frequency 4 divide | give 10008
concurrent=true train_frequency=7 => --train_frequency 7 divide | give 10003
concurrent=true train_steps=25001 => multiple | 25001
cluster=local display_screen=true => --cluster local and --display_screen true exclude each other
cluster=local synchronize=false workers=2 => --synchronize false | --cluster local
random_start_frames=9 => --random_starts 30 | --random_start_frames 9 | --random_starts 0
min_reward=2 => --min_reward 2 | --max_reward 1
exploration_rate_end=0.5 exploration_rate_start=0.2 => 0.5 | 0.2
learning_rate=1e-5 learning_rate_end=2e-5 learning_rate_decay_updates=9 => 1e-05 | 2e-05 | updates 0
batch_norm=true batch_size=1 => --normalization batch cannot | --batch_size 1: raise it
batch_norm=true layer_norm=true => --normalization | exclude each other
double=true munchausen=true => --target_rule | exclude each other
double=true target_steps=0 => --target_rule double | --target_steps | needs a target network
munchausen=true distributional=c51 => --target_rule munchausen | --distributional c51 | fixed atoms
distributional=c51 loss=mse => --distributional c51 | --loss mse | has its own loss
distributional=quantile loss=mse => --distributional quantile | --loss mse | has its own loss
distributional=c51 v_min=3 v_max=2 => --v_min 3 is not below --v_max 2
replay_compression=lz4 replay_device=gpu => --replay_compression lz4 and --replay_device gpu exclude
tensorboard=true => --tensorboard true accompanies a CSV
tensorboard=true csv_file=mine => --csv_file mine | --csv_file mine.csv
csv_file=mine.yaml => --csv_file mine.yaml has the name of the settings | give a name in .csv
emulator=warp environment=catch => --emulator warp and --environment catch exclude
cluster=local schedule=concurrent => --schedule concurrent | exclude each other
cluster=local processes=1 => --processes 1 | exclude each other
cluster=local chunk_steps=4 => --chunk_steps 4 | at least 5
cluster=local replay_size=100 => --replay_size 100 | give at least 110
actors=3 => --actors 3 play on a cluster | --cluster local
overlap=true workers=8 target_steps=0 => --schedule overlapped | needs a target network
overlap=true workers=3 => give --workers 4 or more
ROLLOUTS replay_size=5000 => --schedule rollouts and --replay_size 5000 exclude each other
ROLLOUTS prioritized=true => --sampler prioritized
ROLLOUTS n_step=3 => --n_step 3
ROLLOUTS munchausen=true => --target_rule munchausen
ROLLOUTS distributional=c51 => --distributional c51
ROLLOUTS target_steps=100 => --target_steps 100
ROLLOUTS concurrent=true => --schedule concurrent
ROLLOUTS synchronize=false => --schedule rollouts and --synchronize false | predicted in one batch
ROLLOUTS cluster=local => --cluster local
ROLLOUTS batch_size=25 => --batch_size 25
ROLLOUTS train_frequency=5 => --train_frequency
ROLLOUTS train_steps=100 => give 120
target_rule=mine imports=mine.py => --target_rule mine is not registered | give --import mine.py
"""
ROLLOUTS = "rollout_steps=6 workers=4 target_steps=0 batch_size=8 train_steps=192"


@pytest.mark.parametrize("line", CONTRADICTIONS.strip().splitlines())
def test_settings_that_contradict_each_other(line: str) -> None:
    flags, words = line.replace("ROLLOUTS", ROLLOUTS).split(" => ")
    with pytest.raises(UserError) as caught:
        rules.check(Config.from_flags(read_settings(dict(flag.split("=") for flag in flags.split()))))
    assert all(word in str(caught.value) for word in words.split(" | ")), caught.value


FIRST = {"plot": "pong.csv", "resume": "pong_1.pkl"}  # of the words of a verb


def outcome(verb: str, *words: str) -> dict[str, Any] | str:
    try:
        return read(verb, [FIRST.get(verb, "pong"), *words]).given
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(("verb", "flag", "value"), [
    ("train", "epochs", 7), ("plot", "fields", "meanq"), ("resume", "overlap", True),
    *(("train", "min_reward", float(word)) for word in ("-1", "-.5", "-1e-3", "-1E2", "-inf")),
    ("train", "history_length", 3),  # which begins like -help
])  # fmt: skip
def test_a_flag_of_a_verb_goes_with_one_dash(verb: str, flag: str, value: object) -> None:
    words = [] if value is True else [str(value)]
    given = outcome(verb, f"-{flag}", *words)
    assert given == outcome(verb, f"--{flag}", *words) == outcome(verb, f"-{flag}={str(value).lower()}")
    assert isinstance(given, dict)
    assert str(given[flag]) == str(value)


@pytest.mark.parametrize(("words", "expected"), [
    ("label -min_reward -2 -max_reward -1e0", {"label": "label", "min_reward": -2.0, "max_reward": -1.0}),
    ("-- -label", {"label": "-label"}),
    ("-random_seed -1", "-1 is too small"),
    ("-min_reward -nan", "'-nan' is not a number"),
    ("-histroy_length 3", "unknown flag --histroy_length: did you mean --history_length?"),
])  # fmt: skip
def test_a_negative_number_is_a_value(words: str, expected: dict[str, Any] | str) -> None:
    found = outcome("train", *words.split())
    assert expected in found if isinstance(expected, str) else found == {"game": "pong", **expected}

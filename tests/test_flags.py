"""Flags: the values they take, simple_dqn's own spellings with one dash, and the rules about them."""

from typing import Any

import pytest

from simple_dqn import rules
from simple_dqn.command_line import parser_of_settings
from simple_dqn.config import Config, Share, words
from simple_dqn.config import read as read_settings
from simple_dqn.errors import UserError
from simple_dqn.main import VERBS
from tests.command_line import read

# Names and defaults that simple_dqn promised.
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
}  # fmt: skip


def parse(*arguments: str) -> dict[str, Any]:
    return parser_of_settings("train.sh", "Train.").parse(arguments)


def test_promised_flags_and_defaults() -> None:
    flags = Config().flags()
    assert {name: flags[name] for name in PROMISED} == PROMISED


def test_all_settings_as_flags_are_the_same_settings() -> None:
    given = {name: value for name, value in Config().flags().items() if name not in ("game", "imports")}
    assert {"game": "", "imports": None, **parse(*words(given))} == Config().flags()


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
    ("--random_seed none", {"random_seed": None}),
    ("--exploration_decay_steps 10%", {"exploration_decay_steps": Share(10)}),
])  # fmt: skip
def test_a_value_is_written_in_many_ways_and_only_what_was_given_is_told(
    words: str, given: dict[str, Any]
) -> None:
    assert parse(*words.split()) == given


@pytest.mark.parametrize(("arguments", "words"), [
    ("--lr 1", "did you mean --learning_rate?"),
    ("--buffer-size=1", "did you mean --replay_size?"),
    ("--epoch 1", "did you mean --epochs?"),
    ("--Learning_Rate 1", "did you mean --learning_rate?"),
    ("--slip_probability 1", "--slip_probability is gone: leave it out"),
    *((f"--epochs {word}", "not a whole number") for word in ("1.5", "1e-3", "inf", "nan", "1e400", "many")),
    ("--frame_skip 0", "argument --frame_skip: 0 is too small: give at least 1"),
    ("--exploration_rate_end 2", "--exploration_rate_end: 2 is too large: give at most 1"),
    ("--learning_rate 0", "--learning_rate: 0 is too small: give more than 0"),
    ("--learning_rate nan", "not a number"),
    ("--clip_error inf", "inf is not finite"),
    ("--tensorboard images", "'images' is not one of"),
    ("--optimizer sgd", "invalid choice: 'sgd' (choose from rmsprop"),
    ("--batch_norm maybe", "'maybe' is not one of"),
    ("stray", "unexpected argument 'stray'"),
    ("--random_seed -1", "--random_seed"),
    *((f"--exploration_decay_steps={word}", "decay_steps") for word in ("101%", "-1%", "%", "x%", "nan%")),
])  # fmt: skip
def test_a_wrong_flag_or_value_is_a_line(arguments: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse(*arguments.split())
    assert "\n" not in str(caught.value)
    assert words in str(caught.value)


def test_shared_flags_name_no_place_on_this_machine() -> None:
    config = Config.from_flags({"game": "/home/me/pong.rom", "csv_file": "/home/me/x.csv", "frame_skip": 3})
    assert not any(isinstance(v, str) and "/" in v for v in config.shared_flags().values())
    assert config.shared_flags()["frame_skip"] == 3


CONTRADICTIONS = """
replay_size=3 => --replay_size 3 | at least 5
replay_size=30 workers=8 => 8 game(s) | at least 40
replay_size=30 workers=5 n_step=3 => 7 screens | 5 game(s) | at least 35
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
cluster=local synchronize=false workers=2 => --synchronize false | --cluster local
random_start_frames=9 => --random_starts 30 | --random_start_frames 9 | --random_starts 0
min_reward=2 => --min_reward 2 | --max_reward 1
exploration_rate_end=0.5 exploration_rate_start=0.2 => 0.5 | 0.2
learning_rate=1e-5 learning_rate_end=2e-5 learning_rate_decay_updates=9 => 1e-05 | 2e-05 | updates 0
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
emulator=warp environment=catch => --emulator warp and --environment catch exclude
"""


@pytest.mark.parametrize("line", CONTRADICTIONS.strip().splitlines())
def test_settings_that_contradict_each_other(line: str) -> None:
    flags, words = line.split(" => ")
    with pytest.raises(UserError) as caught:
        rules.check(Config.from_flags(read_settings(dict(flag.split("=") for flag in flags.split()))))
    assert all(word in str(caught.value) for word in words.split(" | ")), caught.value


def test_a_memory_that_actors_fill_needs_no_random_steps() -> None:
    rules.check(Config.from_flags({"workers": 8, "random_steps": 0, "cluster": "local"}))


# What a verb cannot do without.
NEEDED = {
    "plot": ["pong.csv"], "doctor": [], "snapshot": ["show", "pong_1.pkl"],
    "resume": ["pong_1.pkl"], "test": ["pong_1.pkl"], "record": ["pong_1.pkl"], "nvis": ["pong_1.pkl"],
}  # fmt: skip


def outcome(verb: str, *words: str) -> dict[str, Any] | str:
    """Return the values read, or the complaint."""
    try:
        return read(verb, [*NEEDED.get(verb, ["pong"]), *words]).given
    except UserError as error:
        return str(error)


@pytest.mark.parametrize(("verb", "flag", "value"), [
    ("record", "format", "mp4"), ("test", "protocol", "nature"), ("train", "preset", "nature"),
    ("train", "epochs", 7), ("sweep", "seeds", 2), ("plot", "fields", "meanq"), ("nvis", "workers", 3),
    ("resume", "overlap", True), ("play", "display", "terminal"), ("record", "overlay", True),
])  # fmt: skip
def test_a_flag_of_a_verb_goes_with_one_dash(verb: str, flag: str, value: object) -> None:
    words = [] if value is True else [str(value)]
    given = outcome(verb, f"-{flag}", *words)
    assert given == outcome(verb, f"--{flag}", *words) == outcome(verb, f"-{flag}={str(value).lower()}")
    assert isinstance(given, dict)
    assert str(given[flag]) == str(value)


@pytest.mark.parametrize("verb", VERBS)
def test_help_is_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        read(verb, ["-help"])
    assert not end.value.code
    assert capsys.readouterr().out.startswith(f"usage: ./{verb}.sh ")


def test_a_flag_that_begins_with_h_is_not_help() -> None:
    assert outcome("train", "-history_length", "3") == {"game": "pong", "history_length": 3}
    message = outcome("train", "-histroy_length", "3")
    assert isinstance(message, str)
    assert "unknown flag --histroy_length: did you mean --history_length?" in message


@pytest.mark.parametrize("value", ["-1", "-.5", "-1e-3", "-1E2", "-inf"])
def test_negative_numbers_are_values(value: str) -> None:
    for given in (["--min_reward", value], ["-min_reward", value], [f"-min_reward={value}"]):
        assert outcome("train", *given) == {"game": "pong", "min_reward": float(value)}


def test_a_negative_number_belongs_to_the_flag_before_it_alone() -> None:
    given = outcome("train", "label", "-min_reward", "-2", "-max_reward", "-1e0")
    assert given == {"game": "pong", "label": "label", "min_reward": -2.0, "max_reward": -1.0}
    assert "-1 is too small" in str(outcome("train", "-random_seed", "-1"))
    assert "'-nan' is not a number" in str(outcome("train", "-min_reward", "-nan"))


def test_after_two_dashes_nothing_is_a_flag() -> None:
    assert outcome("train", "--", "-label") == {"game": "pong", "label": "-label"}


def test_the_csv_of_a_plot_may_have_its_flag() -> None:
    plain = read("plot", ["results/pong.csv", "--fields", "meanq,meancost"]).given
    assert read("plot", ["-csv_file", "results/pong.csv", "-fields", "meanq,meancost"]).given == plain

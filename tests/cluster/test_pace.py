"""How much may be in flight, by what the learner waited."""

from simple_dqn.cluster.crew import IN_FLIGHT
from simple_dqn.cluster.pace import FED, Pace


def settle(pace: Pace, needed: int, chunks: int) -> list[int]:
    """Return what was allowed after each of so many `chunks`, who waits with fewer than `needed`."""
    allowed = []
    for _ in range(chunks):
        pace.came(0.5 if pace.allowed < needed else 0.0, since=1.0)
        allowed.append(pace.allowed)
    return allowed


def test_at_first_all_may_be_in_flight() -> None:
    assert Pace(5).allowed == 5 * IN_FLIGHT


def test_a_learner_that_is_never_kept_waiting_gets_by_with_one() -> None:
    assert settle(Pace(4), needed=0, chunks=8 * IN_FLIGHT * FED)[-1] == 1


def test_it_hovers_about_what_is_needed() -> None:
    for actors, needed in ((2, 2), (8, 5), (1000, 90)):
        allowed = settle(Pace(actors), needed, chunks=100 * FED)[-20 * FED :]
        assert needed - max(1, needed // 4) <= min(allowed)
        assert max(allowed) <= needed + max(1, needed // 4)


def test_the_learner_waits_for_few_chunks() -> None:
    allowed = settle(Pace(2), needed=2, chunks=100 * FED)
    assert sum(one < 2 for one in allowed) <= len(allowed) / FED


def test_a_learner_that_always_waits_has_all_in_flight() -> None:
    pace = Pace(3)
    settle(pace, needed=0, chunks=10 * FED)
    assert settle(pace, needed=100, chunks=10)[-1] == 3 * IN_FLIGHT


def test_a_short_wait_is_none() -> None:
    pace = Pace(1)
    for _ in range(FED):
        pace.came(waited=0.01, since=1.0)
    assert pace.allowed == IN_FLIGHT - 1

"""What holds for every test."""

from hypothesis import HealthCheck, settings

# A busy machine is no fault: no test looks at the time, so neither does Hypothesis.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

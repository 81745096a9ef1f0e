"""What is looked at on this machine before a long run is trusted to it: `CHECKS`, in their order."""

from simple_dqn.doctor import machine, project
from simple_dqn.doctor.findings import Check, Finding, Level, examine

__all__ = ["CHECKS", "Check", "Finding", "Level", "examine"]

CHECKS: dict[str, Check] = {
    "Python": machine.python,
    "packages": project.packages,
    "cores": machine.cores,
    "memory": machine.memory,
    "GPU": machine.gpu,
    "display": machine.display,
    "sound": machine.sound,
    "ROMs": project.roms,
    "disk": machine.disk,
    "folders": project.folders,
}

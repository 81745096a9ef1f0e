import sys
from pathlib import Path

# What bench.sh does: the tables are programs, and no installed package.
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

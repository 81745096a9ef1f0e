"""Speed of Nature's network in several frameworks: `./bench.sh networks`.

It continues rl-nn-benchmarks (2017). Each framework implements a small interface (`interface`) and runs in a
process of its own (`worker`, `contender`). All do the same work on the same data (`work`); this is checked
before anything is timed (`proof`). `measuring` times them alternately; `report` shows the results.
"""

"""Which framework runs the small networks of reinforcement learning fastest: `./bench.sh networks`.

It carries on rl-nn-benchmarks (2017). One process times one framework (`worker`), behind one small interface
(`interface`); all do the same work on the same data (`work`), which is proven before anything is timed
(`proof`). The runner (`runner`) lets them take turns; `report` and `chart` show what came out.
"""

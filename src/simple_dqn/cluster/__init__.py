"""Training on several machines: actors anywhere on a Ray cluster play, and the learner, here, learns.

The architecture is that of Ape-X (Horgan et al. 2018). An actor (`actor.py`) has games and a copy of the
network. It plays a trajectory by the weights that it receives, and returns it. The learner (`learner.py`)
starts the actors and replaces those that fail, stores one trajectory after the other, makes the updates that
are due for its steps, and sends out new weights. Since the number of trajectories in flight is limited and
each is followed by its updates, neither side runs ahead. `session.py` joins Ray, for sweeps too.
"""

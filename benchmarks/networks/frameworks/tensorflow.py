"""TensorFlow with oneDNN: prediction and update are traced into one graph each, for each shape."""

import math
import os
from typing import Any, TypeAlias

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only, without the messages at start-up
import tensorflow as tf

from networks.interface import Framework, QNetwork, UnsupportedError
from networks.work import ADAM_DECAYS, ADAM_EPSILON, ADAM_RATE, BATCH_FIELDS, CONVOLUTIONS, Weights
from simple_dqn.types import Minibatch, QValues, States

Variables: TypeAlias = dict[str, Any]  # of TensorFlow, by name


class TensorFlow(Framework):
    def __init__(self, device: str, threads: int) -> None:
        super().__init__(device, threads)
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        gpus = tf.config.list_physical_devices("GPU")
        if device == "gpu" and not gpus:
            raise UnsupportedError("this build of TensorFlow finds no GPU")
        if device == "cpu":
            tf.config.set_visible_devices([], "GPU")
        self.version = tf.__version__

    def q_network(self, weights: Weights, target: Weights, datatype: str) -> QNetwork:
        return TensorFlowQNetwork(weights, target, tf.as_dtype(datatype))


def variables(weights: Weights) -> Variables:
    return {name: tf.Variable(values) for name, values in weights.items()}


def forward(weights: Variables, states: Any, datatype: Any) -> Any:
    """Return the outputs [B, A] of `states` [B, 4, 84, 84], hidden layers in `datatype`."""
    hidden = {name: tf.cast(values, datatype) for name, values in weights.items()}
    # On the CPU, TensorFlow has convolutions for this order of axes only.
    features = tf.transpose(tf.cast(states, datatype), (0, 2, 3, 1))
    for number, layer in enumerate(CONVOLUTIONS, 1):
        filters = tf.transpose(hidden[f"conv{number}.weight"], (2, 3, 1, 0))
        features = tf.nn.conv2d(features, filters, layer.stride, "VALID")
        features = tf.nn.relu(tf.nn.bias_add(features, hidden[f"conv{number}.bias"]))
    flat = tf.reshape(tf.transpose(features, (0, 3, 1, 2)), (features.shape[0], -1))
    dense = tf.matmul(flat, hidden["dense.weight"], transpose_b=True) + hidden["dense.bias"]
    dense = tf.cast(tf.nn.relu(dense), tf.float32)
    return tf.matmul(dense, weights["output.weight"], transpose_b=True) + weights["output.bias"]


class TensorFlowQNetwork:
    """The Q-network of `interface`."""

    def __init__(self, weights: Weights, target: Weights, datatype: Any) -> None:
        self.datatype = datatype
        self.weights, self.target = variables(weights), variables(target)
        self._means = {name: tf.Variable(tf.zeros_like(values)) for name, values in weights.items()}
        self._squares = {name: tf.Variable(tf.zeros_like(values)) for name, values in weights.items()}
        self._updates = tf.Variable(0.0)
        self._values = tf.function(lambda states: self._forward(self.weights, states))
        self._step = tf.function(self._update)

    def predict(self, states: States) -> QValues:
        values: QValues = self._values(tf.constant(states)).numpy()
        return values

    def train(self, minibatch: Minibatch) -> Any:
        return self._step(*(tf.constant(getattr(minibatch, name)) for name in BATCH_FIELDS))

    def _forward(self, weights: Variables, states: Any) -> Any:
        return forward(weights, tf.cast(states, tf.float32) / 255, self.datatype)

    def _update(
        self, prestates: Any, actions: Any, rewards: Any, poststates: Any, terminals: Any, discounts: Any
    ) -> Any:
        postvalues = tf.reduce_max(self._forward(self.target, poststates), 1)
        follow = tf.where(terminals, 0.0, discounts * postvalues)
        targets = tf.clip_by_value(rewards[:, 0], -1, 1) + follow
        with tf.GradientTape() as tape:
            values = tf.gather(self._forward(self.weights, prestates), actions, batch_dims=1)
            differences = values - targets
            clipped = tf.clip_by_value(differences, -1, 1)
            loss = tf.reduce_mean(clipped * (differences - clipped / 2))
        self._adam(tape.gradient(loss, self.weights))
        return loss

    def _adam(self, gradients: Variables) -> None:
        """Make one step of Adam with TensorFlow's kernel; ε is scaled to match the paper's definition."""
        updates = self._updates.assign_add(1)
        # 1 - ρ^t; expm1 avoids float32's cancellation where ρ^t is near 1.
        mean_scale, square_scale = (-tf.math.expm1(updates * math.log(decay)) for decay in ADAM_DECAYS)
        root = tf.sqrt(square_scale)
        for name, gradient in gradients.items():
            tf.raw_ops.ResourceApplyAdam(
                var=self.weights[name].handle,
                m=self._means[name].handle,
                v=self._squares[name].handle,
                beta1_power=1 - mean_scale,
                beta2_power=1 - square_scale,
                lr=ADAM_RATE,
                beta1=ADAM_DECAYS[0],
                beta2=ADAM_DECAYS[1],
                epsilon=ADAM_EPSILON * root,
                grad=gradient,
            )

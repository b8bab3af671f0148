"""TensorFlow's training loops with only the import changed, and numbers that TensorFlow 2.21 with Keras 3.15 computes.

The weights are sines and cosines, so that both begin with the same ones.
"""

import numpy as np
import pytest

import adjoint.compat.tensorflow as tf
from adjoint.errors import InvalidValueError, NameLookupError

RNG = np.random.default_rng(0)
X = RNG.standard_normal((48, 6)).astype("float32")
Y = X[:, :3].argmax(1).astype("int64")


def weights(shapes):
    return [
        (np.sin(np.arange(int(np.prod(shape))) + i).reshape(shape) * 0.3).astype("float32")
        for i, shape in enumerate(shapes)
    ]


def network():
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Input((6,)),
            tf.keras.layers.Dense(8, activation="relu"),
            tf.keras.layers.Dense(3),
        ]
    )
    model.set_weights(weights([(6, 8), (8,), (8, 3), (3,)]))
    return model


@pytest.mark.parametrize("compiled", [True, False])
def test_a_loop_with_a_tape(compiled):
    model, optimizer = network(), tf.keras.optimizers.Adam(0.01)
    loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = tf.keras.metrics.SparseCategoricalAccuracy()

    def train_step(x, y):
        with tf.GradientTape() as tape:
            predictions = model(x, training=True)
            loss = loss_fn(y, predictions)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        accuracy.update_state(y, predictions)
        return loss

    step = tf.function(train_step) if compiled else train_step
    dataset = tf.data.Dataset.from_tensor_slices((X, Y)).batch(16)
    losses = [step(x, y).numpy() for _ in range(2) for x, y in dataset]
    np.testing.assert_allclose(losses, [1.110416, 1.094008, 1.007076, 1.038497, 1.034004, 0.947677], rtol=2e-6)
    np.testing.assert_allclose(accuracy.result().numpy(), 0.395833, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0][0, :2], [0.05490313, 0.19984788], rtol=2e-5)
    if compiled:
        assert len(list(step.programs())) == 1  # the whole step, with the metric


#: Losses, accuracies, validation losses, and two weights after two epochs.
FITS = {
    "sgd": (lambda: "sgd", [1.084235, 1.079769], [0.395833] * 2, [1.115068, 1.111837], [0.00377497, 0.24859098]),
    "rmsprop": (lambda: "rmsprop", [1.080113, 1.066698], [0.395833] * 2, [1.104335, 1.096067], [0.01035919, 0.2426660]),
    "adam": (lambda: "adam", [1.083688, 1.076672], [0.395833] * 2, [1.110959, 1.105027], [0.00561319, 0.24704012]),
    "adamw": (
        lambda: tf.keras.optimizers.AdamW(0.01, weight_decay=0.1),
        [1.070539, 1.007071], [0.395833] * 2, [1.048468, 1.003087], [0.05474533, 0.19848503],
    ),
    "nesterov": (
        lambda: tf.keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True),
        [1.066731, 0.951330], [0.395833, 0.416667], [1.030972, 0.937029], [0.1208682, 0.14230451],
    ),
    "clipped": (
        lambda: tf.keras.optimizers.SGD(0.5, clipnorm=0.1),
        [1.068244, 1.000173], [0.395833] * 2, [1.057196, 1.002458], [0.06713573, 0.18971676],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_fit_gives_the_history_of_keras(name):
    make, losses, accuracies, valid, kernel = FITS[name]
    model = network()
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=make(), loss=loss, metrics=["accuracy"])
    history = model.fit(
        X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0, validation_data=(X[:20], Y[:20])
    ).history
    assert sorted(history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    np.testing.assert_allclose(history["loss"], losses, rtol=3e-6)
    np.testing.assert_allclose(history["accuracy"], accuracies, rtol=1e-5)
    np.testing.assert_allclose(history["val_loss"], valid, rtol=3e-6)
    np.testing.assert_allclose(model.get_weights()[0][0, :2], kernel, rtol=2e-5)


def test_a_convolutional_model_of_the_functional_interface():
    inputs = tf.keras.Input((9, 9, 2))
    x = tf.keras.layers.Conv2D(4, 3, padding="same", strides=2, activation="relu")(inputs)
    x = tf.keras.layers.BatchNormalization()(x)
    x = tf.keras.layers.Add()(
        [tf.keras.layers.MaxPooling2D(2, padding="same")(x), tf.keras.layers.AveragePooling2D(2, padding="same")(x)]
    )
    outputs = tf.keras.layers.Dense(3, activation="softmax")(tf.keras.layers.Flatten()(x))
    model = tf.keras.Model(inputs, outputs)
    own = model.get_weights()
    assert [w.shape for w in own] == [(3, 3, 2, 4), (4,), (4,), (4,), (4,), (4,), (36, 3), (3,)]
    model.set_weights(
        [
            w if i in (4, 5) else (np.cos(np.arange(w.size) + i).reshape(w.shape) * 0.3 + (i == 2)).astype("float32")
            for i, w in enumerate(own)
        ]
    )
    model.compile("adam", "categorical_crossentropy", metrics=["accuracy", "mse"])
    images = np.sin(np.arange(8 * 9 * 9 * 2)).reshape(8, 9, 9, 2).astype("float32")
    labels = np.eye(3, dtype="float32")[np.arange(8) % 3]
    history = model.fit(images, labels, batch_size=8, epochs=3, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [1.363493, 1.296637, 1.231150], rtol=3e-6)
    np.testing.assert_allclose(history["mse"], [0.276444, 0.263719, 0.249815], rtol=5e-6)
    found = model.predict(images[:2], verbose=0)[0]
    np.testing.assert_allclose(found, [0.44334936, 0.33073282, 0.22591785], rtol=2e-6)


@pytest.mark.parametrize(
    ("kind", "settings", "expected"),
    [
        ("LSTM", {}, [0.3082432, -0.4355639, -0.5324761]),
        ("GRU", {}, [0.23590636, -0.3757003, -0.16648848]),
        ("SimpleRNN", {"return_sequences": True}, [-0.6657021, -0.9189543, -0.7195998]),
    ],
)
def test_recurrent_layers(kind, settings, expected):
    layer = getattr(tf.keras.layers, kind)(4, **settings)
    x = RECURRENT
    layer(x)
    layer.set_weights(
        [(np.sin(np.arange(w.size) + i).reshape(w.shape)).astype("float32") for i, w in enumerate(layer.get_weights())]
    )
    np.testing.assert_allclose(layer(x).numpy().ravel()[:3], expected, rtol=2e-5)


RECURRENT = RNG.standard_normal((4, 5, 3)).astype("float32")


class Subclassed(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.first = tf.keras.layers.Dense(8, activation="tanh")
        self.dropout = tf.keras.layers.Dropout(0.5)
        self.last = tf.keras.layers.Dense(3)

    def call(self, inputs, training=False):
        return self.last(self.dropout(self.first(inputs), training=training))


def test_a_subclass_learns_and_its_weights_are_saved(tmp_path):
    tf.keras.utils.set_random_seed(0)
    model = Subclassed()
    model.compile(
        optimizer=tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.05, 50, 0.5)),
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    seen = []

    class Watch(tf.keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            seen.append((epoch, sorted(logs)))

        def on_train_batch_end(self, batch, logs=None):  # noqa: ARG002
            seen.append(batch)

    stop = tf.keras.callbacks.EarlyStopping(monitor="loss", patience=3)
    log = tf.keras.callbacks.CSVLogger(tmp_path / "log.csv")
    history = model.fit(
        X, Y, batch_size=24, epochs=60, verbose=0, callbacks=[Watch(), stop, log], validation_split=0.25
    )
    assert history.history["loss"][-1] < 0.7 * history.history["loss"][0]
    assert seen[:3] == [0, 1, (0, ["accuracy", "loss", "val_accuracy", "val_loss"])]
    assert len(history.epoch) == len((tmp_path / "log.csv").read_text().splitlines()) - 1
    assert np.array_equal(model.predict(X), model.predict(X))  # without dropout
    model.save_weights(tmp_path / "w.safetensors")
    other = Subclassed()
    other(X[:1])
    other.load_weights(tmp_path / "w.safetensors")
    assert np.array_equal(model.predict(X), other.predict(X))
    model.trainable = False
    assert (len(model.trainable_weights), len(model.weights)) == (0, 4)


def test_tapes():
    v, c = tf.Variable(3.0), tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(c)
        z = v * v * c
    assert (float(tape.gradient(z, v)), float(tape.gradient(z, c))) == (12.0, 9.0)
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            z = v**3
        first = inner.gradient(z, v)
    assert (float(first), float(outer.gradient(first, v))) == (27.0, 18.0)
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(v)
        z = tf.reduce_sum(w * v) * tf.stop_gradient(v)
    found = tape.gradient(z, {"v": v, "w": w})
    assert (float(found["v"]), found["w"]) == (9.0, None)
    with tf.GradientTape() as tape:
        z = w * w
    np.testing.assert_allclose(tape.jacobian(z, w).numpy(), [[2.0, 0.0], [0.0, 4.0]])
    with tf.GradientTape() as tape:
        z = w * 3.0
    zero = tf.UnconnectedGradients.ZERO
    found = tape.gradient(z, [w, v], output_gradients=tf.constant([1.0, 10.0]), unconnected_gradients=zero)
    assert [one.numpy().tolist() for one in found] == [[3.0, 30.0], 0.0]
    v.assign_add(1.0)
    v.assign_sub(0.5)
    assert v.assign(v * 2.0).numpy() == 7.0


def test_functions_mean_what_numpy_computes():
    x = RNG.standard_normal((3, 4)).astype("f4")
    t = tf.constant(x)
    pairs = [
        (tf.reduce_mean(t, axis=0), x.mean(0)), (tf.reduce_max(t), x.max()), (tf.math.reduce_std(t, 1), x.std(1)),
        (tf.matmul(t, t, transpose_b=True), x @ x.T), (tf.argmax(t, axis=1), x.argmax(1)), (tf.argmax(t), x.argmax(0)),
        (tf.transpose(t), x.T), (tf.gather(t, [2, 0]), x[[2, 0]]), (tf.gather(t, [1, 1], axis=1), x[:, [1, 1]]),
        (tf.one_hot([2, 0], 3), np.eye(3)[[2, 0]]), (tf.pad(t, [[1, 0], [0, 2]]), np.pad(x, ((1, 0), (0, 2)))),
        (tf.cumsum(t, 1, exclusive=True), np.cumsum(x, 1) - x), (tf.concat([t, t], 1), np.concatenate([x, x], 1)),
        (tf.where(t > 0, t, 0.0), np.where(x > 0, x, 0)), (tf.slice(t, [1, 0], [2, -1]), x[1:3]),
        (tf.clip_by_norm(t, 1.0), x / np.linalg.norm(x)), (tf.split(t, 2, 1)[1], x[:, 2:]),
        (tf.squared_difference(t, 1.0), (x - 1) ** 2), (tf.nn.leaky_relu(t), np.where(x > 0, x, 0.2 * x)),
        (tf.cast(t, tf.int32), x.astype("i4")), (tf.reverse(t, [0]), x[::-1]), (tf.tile(t, [2, 1]), np.tile(x, (2, 1))),
    ]  # fmt: skip
    for number, (found, expected) in enumerate(pairs):
        np.testing.assert_allclose(found.numpy(), expected, rtol=2e-5, atol=1e-6, err_msg=str(number))
    assert tf.constant([1, 2]).dtype == tf.int32
    assert tf.constant(1.5).dtype == tf.float32


def test_datasets():
    rows = tf.data.Dataset.range(7)
    assert [one.numpy().tolist() for one in rows.batch(3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [one.numpy().tolist() for one in rows.batch(3, drop_remainder=True)] == [[0, 1, 2], [3, 4, 5]]
    even = rows.map(lambda n: n * 2).filter(lambda n: n > 4).take(2).repeat(2)
    assert [int(n) for n in even] == [6, 8, 6, 8]
    shuffled = rows.shuffle(3, seed=1)
    first, second = ([int(n) for n in shuffled] for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(7))
    assert first != second
    pairs = tf.data.Dataset.zip((rows, rows.skip(2))).enumerate()
    assert [(int(i), int(a), int(b)) for i, (a, b) in pairs.take(2)] == [(0, 0, 2), (1, 1, 3)]
    assert (len(rows.batch(3)), len(rows.concatenate(rows))) == (3, 14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: network().fit(X, Y),
            InvalidValueError,
            r"fit comes after compile, got no optimizer; call model.compile",
        ),
        (
            lambda: tf.keras.layers.Dense(3, activation="rely"),
            NameLookupError,
            "there is no activation 'rely'; known ones",
        ),
        (
            lambda: tf.keras.layers.Conv2D(3, 3, data_format="channels_first"),
            InvalidValueError,
            "Conv2D: data_format must be 'channels_last', got 'channels_first'; transpose images",
        ),
        (
            lambda: network().set_weights([X]),
            InvalidValueError,
            "set_weights takes 4 arrays, got 1; build it first",
        ),
        (
            lambda: tf.keras.layers.MultiHeadAttention,
            AttributeError,
            "is not covered; use adjoint.nn.MultiheadAttention",
        ),
        (lambda: tf.Session, AttributeError, "tensorflow.Session is not covered; leave it out"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_tape_is_used_once():
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        z = v * 2.0
    tape.gradient(z, v)
    with pytest.raises(InvalidValueError, match=r"can be called once, got a second call; .*persistent=True"):
        tape.gradient(z, v)

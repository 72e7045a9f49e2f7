"""Writes the `.tflite` files of this folder with TensorFlow's own converter.

    python -m venv /tmp/tf && /tmp/tf/bin/pip install tensorflow-cpu==2.21.0
    /tmp/tf/bin/python tests/lowering/from_tflite/converted/make.py

The networks are those of MLPerf Tiny and their relatives with few channels: a residual network, a
depthwise separable one, an autoencoder, one with squeeze-and-excitation, a U-Net, one with pads of
all kinds, and recurrent cells unrolled. Weights are drawn from seeds, statistics of normalisation
are none of 0 and 1. Tests do not run this: they need TensorFlow neither installed nor found.
`legacy.uint8.tflite` is of the converter before MLIR: it needs tensorflow-cpu==2.12.1, is named as
an argument, and nothing else is written then. The files of `state` keep values from run to run:
they take tf_keras==2.21.0, TF_USE_LEGACY_KERAS=1 and the argument `state`: Keras 3 writes loops.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

tf: Any = import_module("tensorflow")
K: Any = tf.keras
L: Any = K.layers

HERE = Path(__file__).resolve().parent


def conv(
    x: Any, channels: int, kernel: int = 3, strides: int = 1, activation: str | None = "relu"
) -> Any:
    x = L.Conv2D(channels, kernel, strides, "same", use_bias=False)(x)
    x = L.BatchNormalization()(x)
    return L.Activation(activation)(x) if activation else x


def depthwise(x: Any, strides: int = 1, kernel: int = 3) -> Any:
    x = L.DepthwiseConv2D(kernel, strides, "same", use_bias=False)(x)
    return L.ReLU(6.0)(L.BatchNormalization()(x))


def resnet() -> Any:
    given = L.Input((16, 16, 3))
    x = conv(given, 8)
    for channels, strides in ((8, 1), (12, 2)):
        y = conv(conv(x, channels, 3, strides), channels, activation=None)
        if strides != 1:
            x = L.Conv2D(channels, 1, strides, "same")(x)
        x = L.Activation("relu")(L.Add()([x, y]))
    x = L.Flatten()(L.AveragePooling2D(8)(x))
    return K.Model(given, L.Dense(5, activation="softmax")(x))


def mobilenet() -> Any:
    given = L.Input((24, 24, 3))
    x = conv(given, 8, strides=2)
    for channels, strides in ((12, 1), (16, 2), (16, 1)):
        x = conv(depthwise(x, strides), channels, 1)
    x = L.GlobalAveragePooling2D()(x)
    return K.Model(given, L.Dense(3)(x))


def autoencoder() -> Any:
    given = x = L.Input((64,))
    for width in (24, 24, 4, 24, 24):
        x = L.ReLU()(L.BatchNormalization()(L.Dense(width)(x)))
    return K.Model(given, L.Dense(64)(x))


def excitation() -> Any:
    given = L.Input((16, 16, 3))
    x = conv(given, 8, strides=2, activation="swish")
    gate = L.Conv2D(4, 1, activation="relu")(L.GlobalAveragePooling2D(keepdims=True)(x))
    gate = L.Conv2D(8, 1)(gate)
    gate = L.Rescaling(1 / 6)(L.ReLU(6.0)(L.Rescaling(1.0, 3.0)(gate)))
    x = conv(L.Multiply()([x, gate]), 12, 5, activation="sigmoid")
    x = L.LeakyReLU(0.1)(L.MaxPooling2D(2)(x))
    return K.Model(given, L.Dense(4, activation="tanh")(L.Flatten()(x)))


def unet() -> Any:
    given = L.Input((16, 16, 3), batch_size=1)
    first = conv(given, 6)
    second = conv(L.MaxPooling2D(2)(first), 8)
    x = conv(L.MaxPooling2D(2)(second), 12)
    x = L.Conv2DTranspose(8, 2, 2, "same")(x)
    x = conv(L.Concatenate()([x, second]), 8)
    x = L.UpSampling2D(2, interpolation="bilinear")(x)
    x = L.Concatenate()([x, first])
    return K.Model(given, L.Conv2D(2, 1, activation="sigmoid")(x))


def pads() -> Any:
    given = L.Input((15, 14, 3))
    x = L.ZeroPadding2D(((2, 1), (0, 3)))(given)
    x = L.Conv2D(6, 3, activation="relu")(x)
    x = L.Conv2D(6, 3, padding="same", dilation_rate=2, activation="relu")(x)
    x = L.DepthwiseConv2D(3, depth_multiplier=2, padding="same")(x)
    x = L.Cropping2D(((1, 2), (0, 1)))(x)
    x = L.AveragePooling2D(3, 2, "same")(x)
    x = L.MaxPooling2D(3, 2, "same")(x)
    return K.Model(given, L.Dense(4)(L.Flatten()(L.Permute((3, 1, 2))(x))))


def recurrent() -> Any:
    given = L.Input((4, 6))
    x = L.LSTM(6, unroll=True, return_sequences=True)(given)
    x = L.GRU(5, unroll=True)(x)
    return K.Model(given, L.Dense(3, activation="softmax")(x))


FILES: dict[str, tuple[Any, list[str]]] = {
    "resnet": (resnet, ["float32", "float16", "int8", "int8-float-ports", "int16"]),
    "mobilenet": (mobilenet, ["dynamic", "int8", "uint8-ports", "int8-old"]),
    "autoencoder": (autoencoder, ["float32", "int8-one-scale"]),
    "excitation": (excitation, ["float32", "int8"]),
    "unet": (unet, ["float32", "int8"]),
    "pads": (pads, ["float32", "int8"]),
    "recurrent": (recurrent, ["float32"]),
}


def seeded(make: Any) -> Any:
    """The network with weights that are all drawn."""
    K.utils.set_random_seed(7)
    model, random = make(), np.random.default_rng(1)
    for layer in model.layers:
        weights = layer.get_weights()
        if isinstance(layer, L.BatchNormalization):
            spans = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.3, 2))
            drawn = [random.uniform(*s, w.shape) for s, w in zip(spans, weights, strict=True)]
            layer.set_weights(drawn)
        elif weights:
            moved = [w + 0.1 * random.normal(size=w.shape) * (w.ndim == 1) for w in weights]
            layer.set_weights(moved)
    return model


def converted(model: Any, form: str) -> bytes:
    """The bytes of the file."""
    random, shape = np.random.default_rng(2), model.inputs[0].shape[1:]
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if form != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if form.startswith(("int", "uint")):
        samples = [random.normal(size=(1, *shape)).astype(np.float32) for _ in range(16)]
        converter.representative_dataset = lambda: ([sample] for sample in samples)
        sets = tf.lite.OpsSet
        wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [
            wide if form == "int16" else sets.TFLITE_BUILTINS_INT8
        ]
        if form != "int8-float-ports":
            port = {"int16": tf.int16, "uint8-ports": tf.uint8}.get(form, tf.int8)
            converter.inference_input_type = converter.inference_output_type = port
        converter._experimental_disable_per_channel = form == "int8-one-scale"
        converter.experimental_new_quantizer = form != "int8-old"
    return converter.convert()


def legacy() -> bytes:
    """A network trained with fake quantisation, as uint8 with zero points of weights."""
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    random = np.random.default_rng(3)

    def fake(x: Any, low: float, high: float) -> Any:
        return tf.quantization.fake_quant_with_min_max_args(x, low, high)

    def weight(*shape: int) -> Any:
        return fake(tf.constant(random.uniform(-0.5, 0.7, shape).astype(np.float32)), -0.5, 0.7)

    def bias(size: int) -> Any:
        return tf.constant(random.normal(size=size).astype(np.float32))

    with v1.Session() as session:
        given = v1.placeholder(tf.float32, (1, 12, 12, 3), "x")
        x = fake(given, -1.0, 1.0)
        x = tf.nn.conv2d(x, weight(3, 3, 3, 6), 2, "SAME") + bias(6)
        x = fake(tf.nn.relu6(x), 0.0, 6.0)
        y = tf.nn.depthwise_conv2d(x, weight(3, 3, 6, 1), [1, 1, 1, 1], "SAME") + bias(6)
        y = fake(tf.nn.relu(y), 0.0, 8.0)
        x = fake(x + y, 0.0, 12.0)
        x = tf.nn.avg_pool2d(x, 2, 2, "VALID")
        x = tf.reshape(x, (1, 54))
        x = fake(tf.matmul(x, weight(54, 4)) + bias(4), -20.0, 20.0)
        converter = v1.lite.TFLiteConverter.from_session(session, [given], [x])
        converter.experimental_new_converter = False
        converter.inference_type = tf.uint8
        converter.quantized_input_stats = {"x": (128.0, 127.0)}
        return converter.convert()


def state(form: str) -> bytes:
    """Two cells over a sequence, each of which becomes one operator with variables."""
    K.utils.set_random_seed(7)
    random = np.random.default_rng(2)
    layers = [L.LSTM(units, return_sequences=True) for units in (20, 12)]
    model = K.Sequential([L.Input((6, 16), batch_size=1), *layers, L.Dense(5)])
    spec = tf.TensorSpec([1, 6, 16], tf.float32, "x")
    function = tf.function(lambda x: model(x)).get_concrete_function(spec)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function], model)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if form == "int8":
        # Larger values: the memory of the second cell is on a grid for which LiteRT has a tangent.
        samples = [3 * random.normal(size=(1, 6, 16)).astype(np.float32) for _ in range(64)]
        converter.representative_dataset = lambda: ([sample] for sample in samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = converter.inference_output_type = tf.int8
    return converter.convert()


def main() -> None:
    if sys.argv[1:] == ["state"]:
        for form in ("dynamic", "int8"):
            (HERE / "state" / f"lstm.{form}.tflite").write_bytes(state(form))
        return
    if sys.argv[1:] == ["legacy"]:
        (HERE / "legacy.uint8.tflite").write_bytes(legacy())
        return
    for name, (make, forms) in FILES.items():
        model = seeded(make)
        for form in forms:
            (HERE / f"{name}.{form}.tflite").write_bytes(converted(model, form))


if __name__ == "__main__":
    main()

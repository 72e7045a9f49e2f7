"""The Lava script of a network, and the arrays that it loads."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from string import Template

import numpy as np

from ...ir.arrays import Array
from ..emission import Inexpressible
from .network import Connection, LoihiNetwork, Population

LAVA = "0.10.0"
"""The release of lava-nc that the script is for."""

_SCRIPT = Template('''"""$title on Loihi 2: a script for Lava $lava, written by Triton DSL.

    python network.py inputs.npz results.npz             # Lava's fixed-point models
    python network.py inputs.npz results.npz --states    # u and v after each step too

Arrays in inputs.npz: $inputs.
In results.npz, alike: $outputs.
"""

import sys
from pathlib import Path

import numpy as np
from lava.magma.core.run_conditions import RunSteps
from lava.magma.core.run_configs import Loihi2SimCfg
from lava.proc.conv.process import Conv
from lava.proc.dense.process import Dense, DelayDense
from lava.proc.io.source import RingBuffer
from lava.proc.lif.process import LIF, TernaryLIF
from lava.proc.monitor.process import Monitor
$subtracting

def load(name):
    return np.load(Path(__file__).parent / "arrays" / (name + ".npy"))


def build(inputs):
    """The processes; inputs are of one sample, [steps, ...]. Lava has axes the other way round."""
$body
    return {$populations}


def run(inputs, steps, states):
    """What one sample gives: spikes of the results, and with states u and v of all neurons."""
    neurons = build(inputs)
    watched = [(name + ".spikes", neurons[name].s_out, neurons[name]) for name in $watched]
    if states:
        watched += [(n + "." + v, getattr(p, v), p) for n, p in neurons.items() for v in "uv"]
    monitors = {}
    for key, variable, process in watched:
        monitors[key] = Monitor(), process.name, variable.name
        monitors[key][0].probe(variable, steps)
    last = list(neurons.values())[-1]
    last.run(condition=RunSteps(num_steps=steps), run_cfg=Loihi2SimCfg(select_tag="fixed_pt"))
    results = {
        key: np.asarray(monitor.get_data()[process][variable]).astype(np.int32)
        for key, (monitor, process, variable) in monitors.items()
    }
    last.stop()
    return {k: x.transpose([0, *reversed(range(1, x.ndim))]) for k, x in results.items()}


def main():
    inputs = {name: np.asarray(x) for name, x in np.load(sys.argv[1]).items()}
    steps, samples = next(iter(inputs.values())).shape[:2]
    states = "--states" in sys.argv[3:]
    parts = [run({k: x[:, n] for k, x in inputs.items()}, steps, states) for n in range(samples)]
    np.savez(sys.argv[2], **{k: np.stack([part[k] for part in parts], 1) for k in parts[0]})


if __name__ == "__main__":
    main()
''')

_SUBTRACTING = '''from lava.magma.core.decorator import implements, requires, tag
from lava.magma.core.model.py.ports import PyOutPort
from lava.magma.core.model.py.type import LavaPyType
from lava.magma.core.resources import CPU
from lava.magma.core.sync.protocols.loihi_protocol import LoihiProtocol
from lava.proc.lif.models import AbstractPyLifModelFixed


class SubtractingLIF(LIF):
    """A LIF that loses its threshold at a spike: on the chip a neuron in microcode."""


@implements(proc=SubtractingLIF, protocol=LoihiProtocol)
@requires(CPU)
@tag("fixed_pt")
class PySubtractingLIF(AbstractPyLifModelFixed):
    s_out: PyOutPort = LavaPyType(PyOutPort.VEC_DENSE, np.int32, precision=24)
    vth: int = LavaPyType(int, np.int32, precision=17)

    def scale_threshold(self):
        self.effective_vth = np.left_shift(self.vth, self.vth_shift)
        self.isthrscaled = True

    def spiking_activation(self):
        return self.v > self.effective_vth

    def reset_voltage(self, spike_vector):
        self.v[:] -= spike_vector * self.effective_vth

'''


def script_files(network: LoihiNetwork, title: str) -> dict[str, bytes]:
    """The files `network.py` and `arrays/NAME.npy`.

    Raises:
        Inexpressible: Lava has nothing for a part; says which.
    """
    arrays: dict[str, Array] = {}
    lines = list(_lines(network, arrays))
    names = [population.name for population in network.populations]
    text = _SCRIPT.substitute(
        title=title,
        lava=LAVA,
        inputs=", ".join(
            f"{i.name} [steps, samples, {', '.join(map(str, i.shape))}]" for i in network.inputs
        ),
        outputs=", ".join(f"{name}.spikes" for _, name in network.outputs),
        subtracting=_SUBTRACTING if any(p.subtracts for p in network.populations) else "",
        body="\n".join(f"    {line}" for line in lines),
        populations=", ".join(f'"{name}": {name}' for name in names),
        watched=list(dict.fromkeys(name for _, name in network.outputs)),
    )
    files = {"network.py": text.encode()}
    for name, array in arrays.items():
        buffer = BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        files[f"arrays/{name}.npy"] = buffer.getvalue()
    return files


def _lines(network: LoihiNetwork, arrays: dict[str, Array]) -> Iterator[str]:
    shapes = {part.name: part.shape for part in (*network.inputs, *network.populations)}
    graded = {p.name for p in network.populations if p.threshold_low is not None}
    for input in network.inputs:
        yield f'{input.name} = RingBuffer(data=inputs["{input.name}"].astype(np.int32).T)'
    for population in network.populations:
        yield _neurons(population, arrays)
    for connection in network.connections:
        source = f"{connection.source}.s_out"
        if connection.weights is None:
            yield f"{source}.connect({connection.target}.a_in)"
            continue
        rank = len(shapes[connection.source])
        if connection.window is None and rank > 1:
            source += f".transpose({list(reversed(range(rank)))}).flatten()"
        bits = 8 if connection.source in graded else 0
        yield _synapses(connection, shapes[connection.source], bits, arrays)
        yield f"{source}.connect({connection.name}.s_in)"
        yield f"{connection.name}.a_out.connect({connection.target}.a_in)"


def _neurons(population: Population, arrays: dict[str, Array]) -> str:
    mantissa, exponent = bias_parts(population)
    p, kind = population, "LIF"
    thresholds = f"vth={p.threshold}"
    if p.threshold_low is not None:
        kind, thresholds = "TernaryLIF", f"vth_hi={p.threshold}, vth_lo={p.threshold_low}"
        if p.subtracts:
            raise Inexpressible(f"'{p.name}' subtracts thresholds from neurons that have two")
    elif p.subtracts:
        kind = "SubtractingLIF"
    bias = ""
    if mantissa.any():
        bias = f", bias_mant={mantissa.reshape(-1)[0]}, bias_exp={exponent}"
        if mantissa.ndim:
            arrays[f"{p.name}_bias"] = mantissa.T.astype(np.int32)
            bias = f', bias_mant=load("{p.name}_bias"), bias_exp={exponent}'
    shape = p.shape[::-1]
    return (
        f"{p.name} = {kind}(shape={shape}, du={p.du}, dv={p.dv}, {thresholds}{bias}, "
        f'name="{p.name}")'
    )


def bias_parts(population: Population) -> tuple[Array, int]:
    """Mantissas of 13 bits and their exponent, from 0 to 7.

    Raises:
        Inexpressible: the bias has more bits.
    """
    bias = population.bias
    for exponent in range(8):
        mantissa = bias >> exponent
        if mantissa.min(initial=0) >= -4096 and mantissa.max(initial=0) <= 4095:
            if ((mantissa << exponent) == bias).all():
                return mantissa, exponent
            break
    raise Inexpressible(f"'{population.name}' has a bias beyond 13 bits and an exponent of 3")


def _synapses(
    connection: Connection, shape: tuple[int, ...], bits: int, arrays: dict[str, Array]
) -> str:
    weights, name = connection.weights, connection.name
    assert weights is not None
    options = f'num_message_bits={bits}, name="{name}"'
    window = connection.window
    if window is not None:
        if connection.delay > 1:
            raise Inexpressible(f"'{name}' is a convolution with a delay of {connection.delay}")
        # Lava's axes are out, width, height, in, and it turns kernels round.
        arrays[name] = weights.mantissa[:, :, ::-1, ::-1].transpose(0, 3, 2, 1)
        sizes = ", ".join(
            f"{key}={value[::-1]}"
            for key, value in (
                ("stride", window.strides),
                ("padding", window.padding),
                ("dilation", window.dilation),
            )
        )
        return (
            f'{name} = Conv(weight=load("{name}"), input_shape={shape[::-1]}, {sizes}, '
            f"groups={window.groups}, {options})"
        )
    arrays[name] = weights.mantissa
    exponent = f"weight_exp={weights.exponent}"
    if connection.delay == 1:
        return f'{name} = Dense(weights=load("{name}"), {exponent}, {options})'
    later = connection.delay - 1
    return (
        f'{name} = DelayDense(weights=load("{name}"), max_delay={later}, '
        f'delays=np.full(load("{name}").shape, {later}), {exponent}, {options})'
    )

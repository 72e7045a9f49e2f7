"""The Lava script of a network, and the arrays that it loads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from io import BytesIO
from math import prod
from string import Template

import numpy as np

from ...ir.arrays import Array
from ..emission import Inexpressible
from .cores import reach
from .parts import Connection, LoihiNetwork, Output, Population, SigmaDelta

LAVA = "0.10.0"
"""The release of lava-nc that the script is for."""

_SCRIPT = Template('''"""$title on Loihi 2: a script for Lava $lava, written by Triton DSL.

    python network.py inputs.npz results.npz             # Lava's fixed-point models
    python network.py inputs.npz results.npz --states    # u and v after each step too

Arrays in inputs.npz: $inputs.
In results.npz: $outputs.
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
$imports$subtracting
STEPS = $steps
NUMBERS = $numbers  # inputs that stay: what a unit is worth, and the largest


def load(name):
    return np.load(Path(__file__).parent / "arrays" / (name + ".npy"))


def build(inputs):
    """The processes; inputs are of one sample. Lava has axes the other way round, steps last."""
    for name, (unit, most) in NUMBERS.items():
        numbers = np.clip(np.rint(inputs[name] / np.float32(unit)), -most, most)
        inputs = {**inputs, name: numbers[None]}
$body
    return {$populations}


def run(inputs, steps, states):
    """What one sample gives: spikes of the results, and with states those of all neurons."""
    neurons = build(inputs)
    watched = [(name + ".spikes", neurons[name].s_out, neurons[name]) for name in $watched]
    kept = [(n, p, v) for n, p in neurons.items() for v in ("u", "v", "sigma", "act")]
    if states:
        watched += [(n + "." + v, getattr(p, v), p) for n, p, v in kept if hasattr(p, v)]
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
    potentials = {name: neurons[name].v.get().T for name in $read}
    last.stop()
    results = {k: x.transpose([0, *reversed(range(1, x.ndim))]) for k, x in results.items()}
$means    return results


def main():
    # The first axis counts the samples; that of steps is behind it.
    inputs = {
        name: np.asarray(x) if name in NUMBERS else np.asarray(x).swapaxes(0, 1)
        for name, x in np.load(sys.argv[1]).items()
    }
    first = next(iter(inputs.values()))
    steps, states = STEPS or first.shape[1], "--states" in sys.argv[3:]
    parts = [run({k: x[n] for k, x in inputs.items()}, steps, states) for n in range(len(first))]
    whole = {key: np.stack([part[key] for part in parts]) for key in parts[0]}
    timed = {key: x.swapaxes(0, 1) for key, x in whole.items() if not key.endswith(".mean")}
    np.savez(sys.argv[2], **{**whole, **timed})


if __name__ == "__main__":
    main()
''')

_SUBTRACTING = '''from lava.magma.core.decorator import implements, requires, tag
from lava.magma.core.model.py.ports import PyOutPort
from lava.magma.core.model.py.type import LavaPyType
from lava.magma.core.process.variable import Var
from lava.magma.core.resources import CPU
from lava.magma.core.sync.protocols.loihi_protocol import LoihiProtocol
from lava.proc.lif.models import AbstractPyLifModelFixed


class SubtractingLIF(LIF):
    """A LIF that loses its own threshold at a spike: on the chip a neuron in microcode."""

    def __init__(self, *, shape, vth, **others):
        super().__init__(shape=shape, **others)
        self.vth = Var(shape=shape, init=vth)


@implements(proc=SubtractingLIF, protocol=LoihiProtocol)
@requires(CPU)
@tag("fixed_pt")
class PySubtractingLIF(AbstractPyLifModelFixed):
    s_out: PyOutPort = LavaPyType(PyOutPort.VEC_DENSE, np.int32, precision=24)
    vth: np.ndarray = LavaPyType(np.ndarray, np.int32, precision=17)

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
    import networkx as nx

    joined: nx.Graph[str] = nx.Graph([(c.source, c.target) for c in network.connections])
    if joined and not nx.is_connected(joined):
        raise Inexpressible("has parts that nothing joins, of which Lava runs one; compile each")
    arrays: dict[str, Array] = {}
    lines = list(_lines(network, arrays))
    names = [population.name for population in network.populations]
    keys = result_keys(network)
    read = [output for output in network.outputs if output.added is not None]
    imports = ["from lava.proc.sparse.process import Sparse", "from scipy.sparse import csr_matrix"]
    imports = imports if any("= Sparse(" in line for line in lines) else []
    if any(population.sigma_delta for population in network.populations):
        imports += ["from lava.proc.sdn.process import ActivationMode, SigmaDelta"]
    text = _SCRIPT.substitute(
        title=title,
        lava=LAVA,
        inputs=", ".join(f"{i.name} {_sizes(i.shape, i.numbers is None)}" for i in network.inputs),
        outputs=", ".join(
            f"{key} {_sizes(network.shapes()[o.population], o.added is None)}"
            for key, o in zip(keys, network.outputs, strict=True)
        ),
        imports="".join(f"{line}\n" for line in imports),
        steps=network.steps,
        numbers={i.name: (float(i.numbers[0]), i.numbers[1]) for i in network.inputs if i.numbers},
        read=[o.population for o in read],
        means="".join(f"    {line}\n" for line in _means(read, arrays)),
        subtracting=_SUBTRACTING if any(p.subtracts for p in network.populations) else "",
        body="\n".join(f"    {line}" for line in lines),
        populations=", ".join(f'"{name}": {name}' for name in names),
        watched=list(dict.fromkeys(o.population for o in network.outputs if o.added is None)),
    )
    files = {"network.py": text.encode()}
    for name, array in arrays.items():
        buffer = BytesIO()
        np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
        files[f"arrays/{name}.npy"] = buffer.getvalue()
    return files


def result_keys(network: LoihiNetwork) -> list[str]:
    """What results are called in the file that the script writes."""
    return [
        f"{o.population}.spikes" if o.added is None else f"{o.population}.mean"
        for o in network.outputs
    ]


def _sizes(shape: tuple[int, ...], timed: bool) -> str:
    return f"[{', '.join([*['steps'] * timed, 'samples', *map(str, shape)])}]"


def _means(read: list[Output], arrays: dict[str, Array]) -> Iterator[str]:
    """What potentials at the end mean."""
    for o in read:
        assert o.added is not None
        name = o.population
        mean = f'potentials["{name}"].astype(np.float32) * np.float32({float(o.scale or 0)!r})'
        if o.added.any():
            arrays[f"{name}.added"] = o.added.astype(np.float32)
            mean += f' + load("{name}.added")'
        yield f'results["{name}.mean"] = {mean}'


def _lines(network: LoihiNetwork, arrays: dict[str, Array]) -> Iterator[str]:
    shapes = network.shapes()
    for part in network.pulses:
        there = f"(np.arange(STEPS) >= {part.first}) & (np.arange(STEPS) < {part.last})"
        yield f"{part.name} = RingBuffer(data=np.outer([1, 128], {there}))"
    for input in network.inputs:
        yield f'{input.name} = RingBuffer(data=inputs["{input.name}"].astype(np.int32).T)'
    for population in network.populations:
        yield _neurons(population, arrays)
    for connection in network.connections:
        source = f"{connection.source}.s_out"
        if connection.weights is None:
            yield f"{source}.connect({connection.target}.a_in)"
            continue
        rank, target = len(shapes[connection.source]), shapes[connection.target]
        synapses, flat = _synapses(connection, shapes, arrays)
        if flat and rank > 1:
            source += f".transpose({list(reversed(range(rank)))}).flatten()"
        yield synapses
        yield f"{source}.connect({connection.name}.s_in)"
        reached = f".reshape({target[::-1]})" if flat and len(target) > 1 else ""
        yield f"{connection.name}.a_out{reached}.connect({connection.target}.a_in)"


def _stored(p: Population, key: str, values: Array, arrays: dict[str, Array]) -> str:
    """One number for all neurons as it is, or an array of them, which the script loads."""
    if not values.ndim:
        return f"{values}"
    arrays[f"{p.name}.{key}"] = np.broadcast_to(values, p.shape).T.astype(np.int32)
    return f'load("{p.name}.{key}")'


def _sigma_delta(p: Population, options: SigmaDelta, arrays: dict[str, Array]) -> str:
    unit = 1 << options.shift
    if (p.threshold % unit).any() or (p.bias % unit).any():
        raise Inexpressible(f"'{p.name}' has a threshold or bias between multiples of {unit}")
    bias = f"bias={_stored(p, 'bias', p.bias // unit, arrays)}, " if p.bias.any() else ""
    mode = "RELU" if options.relu else "UNIT"
    return (
        f"{p.name} = SigmaDelta(shape={p.shape[::-1]}, vth={p.threshold // unit}, {bias}"
        f"act_mode=ActivationMode.{mode}, cum_error={options.cumulative}, "
        f'state_exp={options.shift}, name="{p.name}")'
    )


def _neurons(p: Population, arrays: dict[str, Array]) -> str:
    if p.sigma_delta is not None:
        return _sigma_delta(p, p.sigma_delta, arrays)
    mantissa, exponent = bias_parts(p)
    if p.threshold_low is not None:
        if p.subtracts:
            raise Inexpressible(f"'{p.name}' subtracts thresholds from neurons that have two")
        kind, thresholds = "TernaryLIF", f"vth_hi={p.threshold}, vth_lo={p.threshold_low}"
    else:
        kind = "SubtractingLIF" if p.subtracts else "LIF"
        thresholds = f"vth={_stored(p, 'vth', p.threshold, arrays)}"
    more = ""
    if mantissa.any():
        more = f", bias_mant={_stored(p, 'bias', mantissa, arrays)}, bias_exp={exponent}"
    if p.start.any():
        more += f", v={_stored(p, 'start', p.start, arrays)}"
    return (
        f"{p.name} = {kind}(shape={p.shape[::-1]}, du={p.du}, dv={p.dv}, {thresholds}{more}, "
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
    connection: Connection, shapes: Mapping[str, tuple[int, ...]], arrays: dict[str, Array]
) -> tuple[str, bool]:
    """The process of a connection, and whether its ends are flat."""
    weights, name = connection.weights, connection.name
    assert weights is not None
    shape, target = shapes[connection.source], shapes[connection.target]
    options = f'num_message_bits={connection.bits}, name="{name}"'
    exponent = f"weight_exp={weights.exponent}"
    window = connection.window
    if window is not None and connection.delay > 1:
        raise Inexpressible(f"'{name}' is a convolution with a delay of {connection.delay}")
    # Flat, neurons are in Lava's order.
    order = np.arange(prod(target)).reshape(target).T.reshape(-1)
    if window is not None and weights.exponent:
        ways = reach(connection, shape, target)
        source, neuron, tap = ways.entries(0, ways.sources)
        row = np.argsort(order)[neuron]
        sort = np.lexsort((source, row))
        arrays[f"{name}.data"] = weights.mantissa[weights.mantissa != 0][tap[sort]]
        arrays[f"{name}.indices"] = source[sort].astype(np.int32)
        counts = np.bincount(row, minlength=len(order))
        arrays[f"{name}.indptr"] = np.append(0, np.cumsum(counts)).astype(np.int32)
        loaded = ", ".join(f'load("{name}.{part}")' for part in ("data", "indices", "indptr"))
        matrix = f"csr_matrix(({loaded}), {(len(order), ways.sources)})"
        return f"{name} = Sparse(weights={matrix}, {exponent}, {options})", True
    if window is not None:
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
        ), False
    arrays[name] = weights.mantissa[order]
    if connection.delay == 1:
        return f'{name} = Dense(weights=load("{name}"), {exponent}, {options})', True
    later = connection.delay - 1
    return (
        f'{name} = DelayDense(weights=load("{name}"), max_delay={later}, '
        f'delays=np.full(load("{name}").shape, {later}), {exponent}, {options})'
    ), True

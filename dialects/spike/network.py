"""The graph level: networks of populations and projections, one to one with NIR and PyNN.

Here stands what a network is and when it is well formed; `models` says what its neurons are,
`network_graph` how it hangs together, `simulate` and `interpret_network` what it computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite, prod

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    FlatSymbolRefAttrConstr,
    Float64Type,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolNameConstraint,
    SymbolRefAttr,
    TensorType,
    f32,
    f64,
    i8,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    NoTerminator,
    SymbolOpInterface,
    SymbolTable,
)
from xdsl.utils.exceptions import VerifyException

from ..inference import Value, tensor_type
from ..shapes import Shape, broadcasts_to, integer, ints, is_float, show_shape, window_output
from ..tensor.linear import conv_shape
from ..ternary.types import is_trit
from .models import FIRING_MODELS, INTEGRATIONS, MODELS, SPIKING_MODELS
from .neuron import check_firing
from .types import positive_seconds

SIGNALS = ("spikes", "current")
CONNECTIONS = ("linear", "conv", "one_to_one", "avg_pool", "sum_pool")
VARIABLES = ("output", "v")


@irdl_op_definition
class NetworkOp(IRDLOperation):
    """A network of spiking neurons as a graph, in steps of `dt` seconds.

    Its body holds inputs, populations, projections and probes, each with a name of its own, and the
    parameters that they take. `integration` says how time constants become decays: `euler`
    1 - dt/τ, or `exact` e^(-dt/τ). Spikes travel in no time unless a projection has a delay, so
    every cycle needs one. `network_graph.to_networkx` gives it as a graph of networkx.

        spike.network @net dt = 1.000000e-03 {
          %w = ternary.parameter "fc.weight" : tensor<784x10x!ternary.trit>
          spike.input @pixels {shape = array<i64: 784>}
          spike.population @out {model = "lif", shape = array<i64: 10>,
              parameters = {tau = 2.000000e-02 : f64}}
          spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>)
          spike.probe @spikes @out
        }
    """

    name = "spike.network"

    sym_name = prop_def(SymbolNameConstraint())
    dt = prop_def(FloatAttr[Float64Type])
    integration = prop_def(StringAttr, default_value=StringAttr("euler"))
    body = region_def("single_block")

    traits = traits_def(SymbolOpInterface(), SymbolTable(), NoTerminator(), IsolatedFromAbove())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name `dt` `=` $dt attr-dict-with-keyword $body"

    def __init__(
        self, name: str, dt: float, ops: Sequence[Operation] = (), integration: str = "euler"
    ) -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "dt": FloatAttr(dt, f64),
                "integration": StringAttr(integration),
            },
            regions=[Region(Block(ops))],
        )

    def verify_(self) -> None:
        from .network_graph import undelayed_cycle

        positive_seconds(self, self.dt)
        _one_of(self, "integration", self.integration.data, INTEGRATIONS)
        allowed = (InputOp, PopulationOp, ProjectionOp, ProbeOp)
        for op in self.body.block.ops:
            if not isinstance(op, allowed) and (op.operands or len(op.results) != 1):
                raise VerifyException(
                    f"'{self.name}' expects inputs, populations, projections, probes and "
                    f"parameters, got '{op.name}'"
                )
        cycle = undelayed_cycle(self)
        if cycle:
            shown = " -> ".join(f"@{name}" for name in (*cycle, cycle[0]))
            raise VerifyException(
                f"'{self.name}' expects a delay of at least 1 in every cycle, {shown} has none"
            )


@irdl_op_definition
class InputOp(IRDLOperation):
    """Where spikes, or a `current`, enter the network (NIR's Input, a source of PyNN).

    spike.input @pixels {shape = array<i64: 784>}
    """

    name = "spike.input"

    sym_name = prop_def(SymbolNameConstraint())
    shape = prop_def(DenseArrayBase[IntegerType])
    signal = prop_def(StringAttr, default_value=StringAttr("spikes"))

    traits = traits_def(SymbolOpInterface(), HasParent(NetworkOp))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name attr-dict"

    def __init__(self, name: str, shape: Sequence[int], signal: str = "spikes") -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "shape": ints(shape),
                "signal": StringAttr(signal),
            }
        )

    def verify_(self) -> None:
        _check_shape(self, self.shape)
        _one_of(self, "signal", self.signal.data, SIGNALS)

    def spikes(self) -> bool:
        """Whether it gives spikes; else currents."""
        return self.signal.data == "spikes"


@irdl_op_definition
class PopulationOp(IRDLOperation):
    """Neurons of one model: NIR's node, PyNN's Population.

    `model` and its `parameters`, in NIR's names, with times in seconds, resistances relative:
    `lif` (tau, r, v_leak, v_threshold, v_reset), `integrate_fire` (r, v_threshold, v_reset),
    `cuba_lif` (tau_syn, tau_mem, w_in, r, v_leak, v_threshold, v_reset), `adaptive_lif` (tau,
    tau_adaptation, kappa, r, v_leak, v_threshold, v_reset), `leaky_integrator` (tau, r, v_leak),
    `cuba_integrator` (tau_syn, tau_mem, w_in, r, v_leak), `integrator` (r), `sigma_delta` (bias,
    threshold), `threshold` (threshold), and `relay`, which hands on the sum of what it receives.
    Names in `each` take the operands in their order, one value for each neuron. `compare` and
    `reset` are those of `spike.lif`, by default NIR's.

        spike.population @out {model = "lif", shape = array<i64: 10>,
            parameters = {tau = 2.000000e-02 : f64, v_threshold = 5.000000e-01 : f64}}
    """

    name = "spike.population"

    values = var_operand_def(TensorType)
    sym_name = prop_def(SymbolNameConstraint())
    model = prop_def(StringAttr)
    shape = prop_def(DenseArrayBase[IntegerType])
    parameters = prop_def(DictionaryAttr, default_value=DictionaryAttr({}))
    each = prop_def(ArrayAttr[StringAttr], default_value=ArrayAttr[StringAttr]([]))
    compare = prop_def(StringAttr, default_value=StringAttr("gt"))
    reset = prop_def(StringAttr, default_value=StringAttr("to_value"))

    traits = traits_def(SymbolOpInterface(), HasParent(NetworkOp))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name (`values` `(` $values^ `:` type($values) `)`)? attr-dict"

    def __init__(
        self,
        name: str,
        model: str,
        shape: Sequence[int],
        parameters: Mapping[str, float | Value] | None = None,
        *,
        compare: str = "gt",
        reset: str = "to_value",
    ) -> None:
        given = parameters or {}
        each = {n: v for n, v in given.items() if isinstance(v, SSAValue | Operation)}
        numbers = {n: FloatAttr(v, f64) for n, v in given.items() if isinstance(v, int | float)}
        super().__init__(
            operands=[list(each.values())],
            properties={
                "sym_name": StringAttr(name),
                "model": StringAttr(model),
                "shape": ints(shape),
                "parameters": DictionaryAttr(numbers),
                "each": ArrayAttr([StringAttr(n) for n in each]),
                "compare": StringAttr(compare),
                "reset": StringAttr(reset),
            },
        )

    def values_by_name(self) -> dict[str, SSAValue]:
        """The parameters that each neuron has its own of."""
        return {name.data: v for name, v in zip(self.each.data, self.values, strict=True)}

    def spikes(self) -> bool:
        """Whether it gives spikes; else graded ones."""
        return self.model.data in SPIKING_MODELS

    def verify_(self) -> None:
        _check_shape(self, self.shape)
        model, where = self.model.data, f"'{self.name}' @{self.sym_name.data}"
        _one_of(self, "model", model, tuple(MODELS))
        check_firing(self.compare.data, self.reset.data)
        if len(self.each.data) != len(self.values):
            raise VerifyException(
                f"{where} expects a name in each for every operand, got {len(self.each.data)} "
                f"names and {len(self.values)} operands"
            )
        each, numbers = self.values_by_name(), self.parameters.data
        for name in (*numbers, *each):
            if name not in MODELS[model]:
                known = ", ".join(MODELS[model]) or "none"
                raise VerifyException(
                    f"{where} has a parameter '{name}', the model '{model}' has {known}"
                )
        if set(each) & set(numbers) or len(each) != len(self.each.data):
            raise VerifyException(f"{where} expects every parameter once")
        for name, spec in MODELS[model].items():
            if name not in each and name not in numbers and spec.default is None:
                raise VerifyException(f"{where} expects the parameter '{name}'")
        for name, number in numbers.items():
            self._check_number(where, name, number)
        for name, value in each.items():
            self._check_values(where, name, value)

    def _check_number(self, where: str, name: str, number: Attribute) -> None:
        value = number.value.data if isinstance(number, FloatAttr) and number.type == f64 else None
        if value is None or not isfinite(value):
            raise VerifyException(f"{where} expects {name} as a finite f64, got {number}")
        if name.startswith("tau") and value < self.shortest_time():
            raise VerifyException(
                f"{where} expects {name} of at least {self.shortest_time():g} s, got {value:g}"
            )

    def _check_values(self, where: str, name: str, value: SSAValue) -> None:
        type, shape = tensor_type(value), tuple(self.shape.get_values())
        if type.element_type != f32 or not broadcasts_to(type.get_shape(), shape):
            raise VerifyException(
                f"{where} expects {name} of f32 that broadcasts to {show_shape(shape)}, got {type}"
            )

    def shortest_time(self) -> float:
        """The least time constant: dt in Euler steps, which must not overshoot."""
        network = self.parent_op()
        if isinstance(network, NetworkOp) and network.integration.data == "euler":
            return network.dt.value.data
        return 5e-324


@irdl_op_definition
class ProjectionOp(IRDLOperation):
    """Synapses from a population or input to a population: PyNN's Projection, NIR's weight nodes.

    What the target receives at step t is scale·f(s[t - `delay`]) + bias, with f by `connection`:
    `linear` s · W, W [in, out] over the places in row-major order; `conv` as `tensor.conv`;
    `one_to_one` s, or s times weights of the same shape; `avg_pool` or `sum_pool` over windows.
    Weights are f32, i8 or trits, with an optional f32 scale (a scalar or one an output channel) and
    bias (one an output channel).

        spike.projection @fc @pixels -> @out weights(%w : tensor<784x10x!ternary.trit>)
            {delay = 1 : i64}
    """

    name = "spike.projection"

    weights = opt_operand_def(TensorType)
    scale = opt_operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    sym_name = prop_def(SymbolNameConstraint())
    source = prop_def(FlatSymbolRefAttrConstr)
    target = prop_def(FlatSymbolRefAttrConstr)
    connection = prop_def(StringAttr, default_value=StringAttr("linear"))
    delay = prop_def(IntegerAttr[IntegerType], default_value=integer(0))
    kernel = opt_prop_def(DenseArrayBase[IntegerType])
    strides = opt_prop_def(DenseArrayBase[IntegerType])
    padding = opt_prop_def(DenseArrayBase[IntegerType])
    dilation = opt_prop_def(DenseArrayBase[IntegerType])
    groups = opt_prop_def(IntegerAttr[IntegerType])

    traits = traits_def(SymbolOpInterface(), HasParent(NetworkOp))
    irdl_options = (ParsePropInAttrDict(), AttrSizedOperandSegments(as_property=True))
    assembly_format = (
        "$sym_name $source `->` $target "
        "(`weights` `(` $weights^ `:` type($weights) `)`)? "
        "(`scale` `(` $scale^ `:` type($scale) `)`)? "
        "(`bias` `(` $bias^ `:` type($bias) `)`)? attr-dict"
    )

    def __init__(
        self,
        name: str,
        source: str,
        target: str,
        weights: Value | None = None,
        *,
        connection: str = "linear",
        scale: Value | None = None,
        bias: Value | None = None,
        delay: int = 0,
        kernel: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        padding: Sequence[int] | None = None,
        dilation: Sequence[int] | None = None,
        groups: int | None = None,
    ) -> None:
        windows = {"kernel": kernel, "strides": strides, "padding": padding, "dilation": dilation}
        super().__init__(
            operands=[[v] if v is not None else [] for v in (weights, scale, bias)],
            properties={
                "sym_name": StringAttr(name),
                "source": SymbolRefAttr(source),
                "target": SymbolRefAttr(target),
                "connection": StringAttr(connection),
                "delay": integer(delay),
                "groups": None if groups is None else integer(groups),
                **{n: None if v is None else ints(v) for n, v in windows.items()},
            },
        )

    def ends(self) -> tuple[InputOp | PopulationOp, PopulationOp]:
        """The ops that it comes from and goes to.

        Raises:
            VerifyException: one of them does not exist, or is of another kind.
        """
        source = _lookup(self, self.source, (InputOp, PopulationOp), "an input or a population")
        target = _lookup(self, self.target, (PopulationOp,), "a population")
        assert isinstance(source, InputOp | PopulationOp) and isinstance(target, PopulationOp)
        return source, target

    def window(self) -> tuple[Sequence[int], Sequence[int], Sequence[int]]:
        """Strides, padding and dilation, given or by default."""
        spatial = len(self.ends()[0].shape.get_values()) - 1
        kernel = None if self.kernel is None else self.kernel.get_values()
        strides = kernel or [1] * spatial if self.strides is None else self.strides.get_values()
        padding = [0] * 2 * spatial if self.padding is None else self.padding.get_values()
        dilation = [1] * spatial if self.dilation is None else self.dilation.get_values()
        return strides, padding, dilation

    def group_count(self) -> int:
        """The groups of a convolution."""
        return 1 if self.groups is None else self.groups.value.data

    def verify_(self) -> None:
        if not isinstance(self.parent_op(), NetworkOp):
            return
        where = f"'{self.name}' @{self.sym_name.data}"
        _one_of(self, "connection", self.connection.data, CONNECTIONS)
        if self.delay.value.data < 0:
            raise VerifyException(
                f"{where} expects a delay of at least 0, got {self.delay.value.data}"
            )
        source, target = self.ends()
        self._check_operands(where)
        try:
            shape = self.result_shape(tuple(source.shape.get_values()))
        except VerifyException as error:
            raise VerifyException(f"{where} {error}") from None
        wanted = tuple(target.shape.get_values())
        fits = shape == wanted
        if self.connection.data == "linear":
            fits = prod(shape) == prod(wanted)
        if not fits:
            raise VerifyException(
                f"{where} gives {show_shape(shape)}, expected {show_shape(wanted)} "
                f"for @{target.sym_name.data}"
            )
        self._check_vectors(where, shape)

    def _check_operands(self, where: str) -> None:
        connection = self.connection.data
        pools = connection in ("avg_pool", "sum_pool")
        windows = ("kernel",) if pools else ()
        allowed = {*windows, "strides", "padding"} if pools else set[str]()
        if connection == "conv":
            allowed = {"strides", "padding", "dilation", "groups"}
        for name in ("kernel", "strides", "padding", "dilation", "groups"):
            if (getattr(self, name) is not None and name not in allowed) or (
                getattr(self, name) is None and name in windows
            ):
                raise VerifyException(f"{where} {connection}: expects {name} {_only(name)}")
        if self.weights is None and connection in ("linear", "conv"):
            raise VerifyException(f"{where} {connection}: expects weights")
        if pools and (self.weights or self.scale or self.bias):
            raise VerifyException(f"{where} {connection}: expects no weights, scale or bias")
        if self.weights is not None:
            type = tensor_type(self.weights)
            if not (type.element_type in (f32, i8) or is_trit(type)):
                raise VerifyException(f"{where} expects weights of f32, i8 or trits, got {type}")

    def _check_vectors(self, where: str, shape: Shape) -> None:
        channels = prod(shape) if self.connection.data == "linear" else shape[0]
        for what in ("scale", "bias"):
            value: SSAValue | None = getattr(self, what)
            if value is None:
                continue
            type = tensor_type(value)
            sizes = ((), (channels,)) if what == "scale" else ((channels,),)
            if not is_float(type) or type.element_type != f32 or type.get_shape() not in sizes:
                raise VerifyException(
                    f"{where} expects {what} of {channels} f32"
                    f"{' or one' if what == 'scale' else ''}, got {type}"
                )

    def result_shape(self, source: Shape) -> Shape:
        """The shape of what the target receives for a source of the given shape."""
        connection, weights = self.connection.data, self.weights
        matrix = () if weights is None else tensor_type(weights).get_shape()
        if connection == "linear":
            if len(matrix) != 2 or matrix[0] != prod(source):
                raise VerifyException(
                    f"expects weights [{prod(source)}, out] for a source of {show_shape(source)}, "
                    f"got {show_shape(matrix)}"
                )
            return (matrix[1],)
        if connection == "one_to_one":
            if weights is not None and not broadcasts_to(matrix, source):
                raise VerifyException(
                    f"expects weights that broadcast to {show_shape(source)}, "
                    f"got {show_shape(matrix)}"
                )
            return source
        strides, padding, dilation = self.window()
        if connection == "conv":
            groups = self.group_count()
            return conv_shape((1, *source), matrix, strides, padding, dilation, groups)[1:]
        assert self.kernel is not None
        kernel, spatial = self.kernel.get_values(), len(source) - 1
        if spatial not in (1, 2) or not len(kernel) == len(strides) == len(padding) // 2 == spatial:
            raise VerifyException(
                f"expects a kernel for the {max(spatial, 0)} axes of {show_shape(source)}, "
                f"got {list(kernel)}"
            )
        if min(*kernel, *strides) < 1 or min(padding) < 0:
            raise VerifyException("expects sizes and strides of at least 1 and pads of at least 0")
        sizes = [
            window_output(source[1 + a], kernel[a], strides[a], padding[a], padding[spatial + a], 1)
            for a in range(spatial)
        ]
        return (source[0], *sizes)


def _only(name: str) -> str:
    if name == "kernel":
        return "for pools, and only there"
    return "for convolutions" + (" and pools alone" if name in ("strides", "padding") else " alone")


@irdl_op_definition
class ProbeOp(IRDLOperation):
    """What is recorded of a population: its `output`, or the potential `v` after each step.

    An output of the network (NIR's Output, a recording of PyNN).

        spike.probe @potential @out {variable = "v"}
    """

    name = "spike.probe"

    sym_name = prop_def(SymbolNameConstraint())
    target = prop_def(FlatSymbolRefAttrConstr)
    variable = prop_def(StringAttr, default_value=StringAttr("output"))

    traits = traits_def(SymbolOpInterface(), HasParent(NetworkOp))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name $target attr-dict"

    def __init__(self, name: str, target: str, variable: str = "output") -> None:
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "target": SymbolRefAttr(target),
                "variable": StringAttr(variable),
            }
        )

    def population(self) -> PopulationOp:
        """The population that it watches.

        Raises:
            VerifyException: there is none of that name.
        """
        found = _lookup(self, self.target, (PopulationOp,), "a population")
        assert isinstance(found, PopulationOp)
        return found

    def verify_(self) -> None:
        network = self.parent_op()
        if not isinstance(network, NetworkOp):
            return
        where, variable = f"'{self.name}' @{self.sym_name.data}", self.variable.data
        _one_of(self, "variable", variable, VARIABLES)
        model = self.population().model.data
        if variable == "v" and model not in (*FIRING_MODELS, *_INTEGRATORS):
            raise VerifyException(f"{where} watches 'v', the model '{model}' has none")
        for other in network.body.block.ops:
            if other is self:
                break
            if isinstance(other, ProbeOp) and (other.target, other.variable) == (
                self.target,
                self.variable,
            ):
                raise VerifyException(
                    f"{where} watches the same as @{other.sym_name.data}: "
                    f"'{variable}' of {self.target}"
                )


_INTEGRATORS = ("leaky_integrator", "cuba_integrator", "integrator")


def _lookup(
    op: Operation, name: SymbolRefAttr, kinds: tuple[type[Operation], ...], wanted: str
) -> Operation:
    network = op.parent_op()
    own = op.get_attr_or_prop("sym_name")
    where = f"'{op.name}' @{own.data if isinstance(own, StringAttr) else ''}"
    found = None
    if network is not None:
        for other in network.regions[0].block.ops:
            symbol = other.get_attr_or_prop("sym_name")
            if symbol == name.root_reference:
                found = other
    if found is None:
        raise VerifyException(f"{where} refers to {name}, which the network does not have")
    if not isinstance(found, kinds):
        raise VerifyException(f"{where} expects {wanted}, {name} is a '{found.name}'")
    return found


def _one_of(op: Operation, what: str, found: str, allowed: Sequence[str]) -> None:
    if found not in allowed:
        raise VerifyException(
            f"'{op.name}' expects {what} one of {', '.join(allowed)}, got '{found}'"
        )


def _check_shape(op: InputOp | PopulationOp, shape: DenseArrayBase[IntegerType]) -> None:
    sizes = shape.get_values()
    if not sizes or min(sizes) < 1:
        raise VerifyException(
            f"'{op.name}' @{op.sym_name.data} expects a shape of sizes of at least 1, "
            f"got {list(sizes)}"
        )

"""The `spike` dialect: spike trains, the neurons and synapses that make them, and coding.

`types` holds the train, `neuron` what neurons share and the ops of models that no other code names,
`neurons`, `integer` and `adaptive` the others, `coding` encoders and decoders, `synapses` weights,
pools and delays, `body` what ops with a body share: `recurrent` feedback, `scan` a loop over steps,
`layer` a synapse with its neurons; `attention`, `normalization`. The graph level: `network`,
`population`, `projection`, with `models` of neurons, `network_graph` how it hangs together,
`simulate` what it is as a function. `interpret*` has the reference semantics, `threefry` the random
numbers of rate coding, `rebuild` copies of ops with other operands.
"""

from xdsl.ir import Dialect

from .adaptive import AdaptiveLifOp, SigmaDeltaOp
from .attention import AttentionOp
from .body import YieldOp
from .coding import DecodeOp, EncodeOp, FromTensorOp, ToTensorOp
from .integer import IntegerLifOp
from .layer import LayerOp
from .loihi import LoihiLifOp, LoihiNeuronOp, LoihiSigmaDeltaOp, LoihiTernaryLifOp
from .network import InputOp, NetworkOp
from .network_graph import to_networkx
from .neuron import NEURONS, FiringOp, NeuronOp, define_models
from .neurons import CubaLifOp, IntegrateFireOp, LeakyIntegratorOp, LifOp
from .normalization import BatchNormOp
from .population import PopulationOp, ProbeOp
from .projection import ProjectionOp
from .recurrent import RecurrentOp
from .scan import ScanOp
from .simulate import SimulateOp
from .synapses import AvgPoolOp, ConvOp, DelayOp, LinearOp, MaxPoolOp, SynapseOp
from .types import TIME_STEP, TrainType, is_train, time_step, train

define_models()

Spike = Dialect(
    "spike",
    [
        AttentionOp,
        AvgPoolOp,
        BatchNormOp,
        ConvOp,
        DecodeOp,
        DelayOp,
        EncodeOp,
        FromTensorOp,
        InputOp,
        LayerOp,
        LinearOp,
        MaxPoolOp,
        NetworkOp,
        PopulationOp,
        ProbeOp,
        ProjectionOp,
        RecurrentOp,
        ScanOp,
        SimulateOp,
        ToTensorOp,
        YieldOp,
        *NEURONS.values(),
    ],
    [TrainType],
)

__all__ = [
    "NEURONS",
    "TIME_STEP",
    "AdaptiveLifOp",
    "AttentionOp",
    "AvgPoolOp",
    "BatchNormOp",
    "ConvOp",
    "CubaLifOp",
    "DecodeOp",
    "DelayOp",
    "EncodeOp",
    "FiringOp",
    "FromTensorOp",
    "InputOp",
    "IntegerLifOp",
    "IntegrateFireOp",
    "LayerOp",
    "LeakyIntegratorOp",
    "LifOp",
    "LinearOp",
    "LoihiLifOp",
    "LoihiNeuronOp",
    "LoihiSigmaDeltaOp",
    "LoihiTernaryLifOp",
    "MaxPoolOp",
    "NetworkOp",
    "NeuronOp",
    "PopulationOp",
    "ProbeOp",
    "ProjectionOp",
    "RecurrentOp",
    "ScanOp",
    "SigmaDeltaOp",
    "SimulateOp",
    "Spike",
    "SynapseOp",
    "ToTensorOp",
    "TrainType",
    "YieldOp",
    "is_train",
    "time_step",
    "to_networkx",
    "train",
]

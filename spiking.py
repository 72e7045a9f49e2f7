"""Spiking networks: neurons, coding, networks, their conversion, simulation and pictures.

The public names, loaded on first use. It is not the place for code: the imports say where it is.
"""

from typing import TYPE_CHECKING

from .ir.lazy import lazy_names

if TYPE_CHECKING:
    from .lowering.conversion import convert_to_snn as convert_to_snn
    from .lowering.conversion import run_spiking as run_spiking
    from .lowering.neuromorphic.analysis import Comparison as Comparison
    from .lowering.neuromorphic.analysis import ComparisonFramework as ComparisonFramework
    from .lowering.neuromorphic.analysis import EnergyAnalyzer as EnergyAnalyzer
    from .lowering.neuromorphic.backend import DeployedModel as DeployedModel
    from .lowering.neuromorphic.backend import FallbackWarning as FallbackWarning
    from .lowering.neuromorphic.backend import NeuromorphicBackend as NeuromorphicBackend
    from .lowering.neuromorphic.backend import Results as Results
    from .lowering.neuromorphic.backend import SpikingModel as SpikingModel
    from .lowering.neuromorphic.backend import get_neuromorphic_backend as get_neuromorphic_backend
    from .lowering.neuromorphic.machines import EdgeBackend as EdgeBackend
    from .lowering.neuromorphic.machines import Loihi2Backend as Loihi2Backend
    from .lowering.neuromorphic.machines import SpiNNakerBackend as SpiNNakerBackend
    from .lowering.neuromorphic.optimization import OptimizationEngine as OptimizationEngine
    from .lowering.placement.drive import drive_of as drive_of
    from .lowering.placement.energy import EnergyMetrics as EnergyMetrics
    from .lowering.placement.run import Drive as Drive
    from .lowering.simulator import simulator as simulator
    from .lowering.tuned_conversion import fine_tune_to_snn as fine_tune_to_snn
    from .passes.balance_thresholds import ThresholdCalibrator as ThresholdCalibrator
    from .passes.convert_ann_to_snn import ArchitectureValidator as ArchitectureValidator
    from .passes.convert_ann_to_snn import LayerConverter as LayerConverter
    from .passes.convert_ann_to_snn import NotConvertible as NotConvertible
    from .runtime.power import PowerMonitor as PowerMonitor
    from .runtime.spiking.activity import Activity as Activity
    from .runtime.spiking.activity import record as record
    from .runtime.spiking.anytime import answers as answers
    from .runtime.spiking.attention import SpikingAttention as SpikingAttention
    from .runtime.spiking.attention import SpikingSelfAttention as SpikingSelfAttention
    from .runtime.spiking.coding import decode as decode
    from .runtime.spiking.coding import encode as encode
    from .runtime.spiking.config import SpikingConfig as SpikingConfig
    from .runtime.spiking.delays import DelayedLinear as DelayedLinear
    from .runtime.spiking.delays import LearnableDelay as LearnableDelay
    from .runtime.spiking.eprop import EProp as EProp
    from .runtime.spiking.event_data import EventDataset as EventDataset
    from .runtime.spiking.event_data import SpikingSpeech as SpikingSpeech
    from .runtime.spiking.event_data import to_train as to_train
    from .runtime.spiking.event_files import read_events as read_events
    from .runtime.spiking.event_files import read_gestures as read_gestures
    from .runtime.spiking.mlp import SpikingMLP as SpikingMLP
    from .runtime.spiking.neurons import AdaptiveExponentialNeuron as AdaptiveExponentialNeuron
    from .runtime.spiking.neurons import AdaptiveLifNeuron as AdaptiveLifNeuron
    from .runtime.spiking.neurons import CubaLifNeuron as CubaLifNeuron
    from .runtime.spiking.neurons import IntegrateFireNeuron as IntegrateFireNeuron
    from .runtime.spiking.neurons import IzhikevichNeuron as IzhikevichNeuron
    from .runtime.spiking.neurons import LeakyIntegrator as LeakyIntegrator
    from .runtime.spiking.neurons import LifNeuron as LifNeuron
    from .runtime.spiking.neurons import RefractoryLifNeuron as RefractoryLifNeuron
    from .runtime.spiking.neurons import SigmaDeltaNeuron as SigmaDeltaNeuron
    from .runtime.spiking.normalization import TemporalBatchNorm as TemporalBatchNorm
    from .runtime.spiking.qcfs import fine_tune as fine_tune
    from .runtime.spiking.qcfs import replace_relus as replace_relus
    from .runtime.spiking.qcfs import trained_thresholds as trained_thresholds
    from .runtime.spiking.recurrent import RecurrentLayer as RecurrentLayer
    from .runtime.spiking.spike_tensor import SpikeTensor as SpikeTensor
    from .runtime.spiking.spikeformer import SpikeFormer as SpikeFormer
    from .runtime.spiking.stdp import Stdp as Stdp
    from .runtime.spiking.stdp import StdpLayer as StdpLayer
    from .runtime.spiking.surrogate import SurrogateGradient as SurrogateGradient
    from .runtime.spiking.training import run_in_chunks as run_in_chunks
    from .tools.pictures.accuracy import accuracy as accuracy
    from .tools.pictures.dashboard import dashboard as dashboard
    from .tools.pictures.machine import core_map as core_map
    from .tools.pictures.machine import timeline as timeline
    from .tools.pictures.machine import traffic as traffic
    from .tools.pictures.raster import raster as raster
    from .tools.pictures.rates import rates as rates
    from .tools.pictures.traces import traces as traces
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

"""Training float, ternary and spiking modules: trainers, their settings, distillation, trackers.

The public names, loaded on first use. It is not the place for code: the imports say where it is.
"""

from typing import TYPE_CHECKING

from .ir.lazy import lazy_names

if TYPE_CHECKING:
    from .lowering.distribution import Trial as Trial
    from .lowering.distribution import count_right as count_right
    from .lowering.distribution import sweep as sweep
    from .runtime.fake_quantize import FakeQuantize as FakeQuantize
    from .runtime.fake_quantize import quantize_aware as quantize_aware
    from .runtime.pruning import bake as bake
    from .runtime.pruning import prune as prune
    from .runtime.training.adversarial import Attack as Attack
    from .runtime.training.adversarial import RobustnessReport as RobustnessReport
    from .runtime.training.adversarial import robustness as robustness
    from .runtime.training.config import TrainingConfig as TrainingConfig
    from .runtime.training.distillation import Distillation as Distillation
    from .runtime.training.distillation import DistillationLoss as DistillationLoss
    from .runtime.training.distributed import join_processes as join_processes
    from .runtime.training.federated import Rounds as Rounds
    from .runtime.training.federated import coordinator_app as coordinator_app
    from .runtime.training.federated import owner_app as owner_app
    from .runtime.training.hybrid import HybridReport as HybridReport
    from .runtime.training.hybrid import HybridTrainer as HybridTrainer
    from .runtime.training.objectives import CrossEntropy as CrossEntropy
    from .runtime.training.objectives import LossObjective as LossObjective
    from .runtime.training.objectives import Objective as Objective
    from .runtime.training.privacy import Privacy as Privacy
    from .runtime.training.run import TrainingRun as TrainingRun
    from .runtime.training.spiking_run import SpikingRun as SpikingRun
    from .runtime.training.tracking import History as History
    from .runtime.training.tracking import MlflowTracker as MlflowTracker
    from .runtime.training.tracking import PrometheusTracker as PrometheusTracker
    from .runtime.training.tracking import TensorBoardTracker as TensorBoardTracker
    from .runtime.training.tracking import Tracker as Tracker
    from .runtime.training.tracking import register_model as register_model
    from .runtime.training.trainer import Trainer as Trainer
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)

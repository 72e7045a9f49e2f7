"""SpikingJelly on one trained network, run by an interpreter that has it.

    python best_share.py NETWORK SET SEED FOLDER CACHE T,T,… IMAGES

Prints for each T its accuracy in percent on the first so many test images and its spikes an image.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    import torch

    from measure.converters import best_share
    from measure.trained import calibration, images_of, trained

    torch.set_num_threads(1)
    name, of, seed, folder, cache, steps, count = sys.argv[1:]
    images = images_of(of, Path(folder), Path(cache))
    module = trained(name, images, of, int(seed), Path(cache))
    run = best_share(module, calibration(images, 0))
    figures: dict[int, tuple[float, float]] = {}
    for timesteps in map(int, steps.split(",")):
        classes, spikes = run(images.test[: int(count)], timesteps)
        right = classes == images.test_labels[: int(count)]
        figures[timesteps] = 100 * float(right.mean()), spikes
    print(json.dumps(figures))

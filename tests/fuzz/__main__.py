"""`python -m fuzz`, with `tests` on the path; `make fuzz` runs it."""

import os
import sys

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TRITON_DSL_CACHE", os.path.abspath("build/kernels"))
    from .driver import main

    sys.exit(main(sys.argv[1:]))

"""PyNN's simulators: environments of NEST and sPyNNaker, networks, and what was recorded of them.

`environments` makes a virtual environment for each, `cases` has the networks, runs them there, and
keeps what NEST gave and what sPyNNaker placed on virtual boards. Not here: the tests, which are
those of `lowering.to_spinnaker`.
"""

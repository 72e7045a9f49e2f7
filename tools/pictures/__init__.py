"""Pictures of spiking runs, for the command line and notebooks.

`raster` of spikes, `traces` of potentials, `rates` of neurons, `accuracy` after each step; `figure`
has what they share and writes files, `trains` reads what is drawn. matplotlib is loaded when a
picture is drawn: `pip install '.[pictures]'`.
"""

"""What a folder of a circuit has for the computer beside it; not imported by the package.

`circuit_driver.py` stands in the folder as it is here, so it needs NumPy alone, and pyserial or
PYNQ for the port that it talks through. Not here: the circuit, and how it is simulated.
"""

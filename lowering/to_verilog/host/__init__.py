"""What a folder of a circuit has for the computer beside it.

`circuit_driver.py` stands in the folder as it is here, so it needs NumPy alone, and pyserial or
PYNQ for the port that it talks through. Simulations send and read bytes by it too. Not here: the
circuit.
"""

// RUN: not triton-opt %s -p quantize-activations 2>&1 | filecheck %s --check-prefix=NO-DATA
// RUN: not triton-opt %s -p 'quantize-activations{data="absent.npz"}' 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: not triton-opt %s -p 'quantize-activations{data="samples.csv"}' 2>&1 | filecheck %s --check-prefix=KIND
// RUN: not triton-opt %s -p 'quantize-activations{data="%s.npy"}' 2>&1 | filecheck %s --check-prefix=ABSENT
// RUN: not triton-opt %s -p 'quantize-activations{data="%S/Inputs/samples.npy"}' 2>&1 | filecheck %s --check-prefix=SHAPE
// RUN: not triton-opt %s -p 'quantize-activations{bits=9}' 2>&1 | filecheck %s --check-prefix=BITS
// RUN: not triton-opt %s -p 'quantize-activations{observer=median}' 2>&1 | filecheck %s --check-prefix=OBSERVER
// RUN: not triton-opt %s -p 'quantize-activations{percentile=3}' 2>&1 | filecheck %s --check-prefix=PERCENTILE
// RUN: not triton-opt %s -p 'quantize-activations{samples=0}' 2>&1 | filecheck %s --check-prefix=SAMPLES
// RUN: not triton-opt %s -p 'quantize-activations{function=backward}' 2>&1 | filecheck %s --check-prefix=FUNCTION

func.func @forward(%x: tensor<?x3xf32>) -> tensor<?x1xf32> {
  %w = ternary.constant [1, 0, -1] : tensor<3x1x!ternary.trit>
  %y = ternary.linear %x, %w : tensor<?x3xf32>, tensor<3x1x!ternary.trit> -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}

// NO-DATA-NOT: Traceback
// NO-DATA: quantize-activations needs sample inputs to calibrate with: give a file, as in 'quantize-activations{data="samples.npz"}'
// ABSENT-NOT: Traceback
// ABSENT: {{absent.npz|errors.mlir.npy}}': No such file or directory
// KIND: 'samples.csv': unknown kind of file; expected .npy, .npz or .safetensors
// SHAPE: calibration data 'x': expected samples of shape Nx3, got [3, 2]
// BITS: quantize-activations expects bits from 2 to 8, got 9
// OBSERVER: quantize-activations expects observer one of minmax, percentile, entropy, mse, got 'median'
// PERCENTILE: quantize-activations expects a percentile above 50 and up to 100, got 3
// SAMPLES: quantize-activations expects samples of at least 1, got 0
// FUNCTION: the module has no function 'backward'; it has 'forward'

// RUN: triton-opt %s -p 'calibrate{data="%S/Inputs/samples.npy"}' | filecheck %s
// RUN: triton-opt %s -p 'calibrate{data="%S/Inputs/samples.npy" samples=1 observer=mse bits=4}' | filecheck %s --check-prefix=FIRST
// RUN: not triton-opt %s -p calibrate 2>&1 | filecheck %s --check-prefix=DATA
// RUN: not triton-opt %s -p 'calibrate{observer=mean}' 2>&1 | filecheck %s --check-prefix=OBSERVER

func.func @forward(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %w = tensor.constant dense<[[1.0, -2.0], [0.0, 1.0]]> : tensor<2x2xf32>
  %z = tensor.linear %x, %w : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %h = tensor.relu %z : (tensor<?x2xf32>) -> tensor<?x2xf32>
  func.return %h : tensor<?x2xf32>
}
// The samples are [1.27, -0.5], [0.25, -0.75] and [0, 1].
// CHECK: func.func @forward(%x: tensor<?x2xf32> {tensor.range = array<f64: -7.500000e-01, 1.269{{[0-9]+}}>})
// CHECK-SAME: tensor.calibration = {observer = "minmax", bits = 8 : i64, samples = 3 : i64}
// CHECK: tensor.constant dense<[[1.000000e+00, -2.000000e+00], [0.000000e+00, 1.000000e+00]]> : tensor<2x2xf32>
// CHECK: tensor.linear %x, %w {tensor.range = array<f64: -3.03{{[0-9]+}}, 1.269{{[0-9]+}}>}
// CHECK: tensor.relu %z {tensor.range = array<f64: 0.000000e+00, 1.269{{[0-9]+}}>}
// FIRST: tensor.calibration = {observer = "mse", bits = 4 : i64, samples = 1 : i64}
// DATA: calibrate needs sample inputs to calibrate with: give a file, as in 'calibrate{data="samples.npz"}'
// OBSERVER: expected observer one of minmax, percentile, entropy, mse, got 'mean'

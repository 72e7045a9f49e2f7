// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x8x4x4xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<?x8x4x4xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8x4x4xf32>
  func.return
}
// CHECK: %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<?x8x4x4xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8x4x4xf32>

func.func @f1(%x: tensor<?x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  %y = tensor.batch_norm %x, %s, %b, %m, %v {epsilon = 1.0e-3 : f64} : (tensor<?x8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  func.return
}
// CHECK: %y = tensor.batch_norm %x, %s, %b, %m, %v {epsilon = 1.000000e-03 : f64} : (tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<?x8xf32>

func.func @f2(%x: tensor<?x5x8xf32>, %s: tensor<8xf32>) {
  %y = tensor.layer_norm %x, %s : tensor<?x5x8xf32>, tensor<8xf32> -> tensor<?x5x8xf32>
  func.return
}
// CHECK: %y = tensor.layer_norm %x, %s : tensor<?x5x8xf32>, tensor<8xf32> -> tensor<?x5x8xf32>

func.func @f3(%x: tensor<?x5x8xf32>, %s: tensor<5x8xf32>, %b: tensor<5x8xf32>) {
  %y = tensor.layer_norm %x, %s bias(%b : tensor<5x8xf32>) {epsilon = 0.0 : f64} :
      tensor<?x5x8xf32>, tensor<5x8xf32> -> tensor<?x5x8xf32>
  func.return
}
// CHECK: %y = tensor.layer_norm %x, %s bias(%b : tensor<5x8xf32>) {epsilon = 0.000000e+00 : f64} : tensor<?x5x8xf32>, tensor<5x8xf32> -> tensor<?x5x8xf32>

func.func @f4(%x: tensor<?x5x8xf32>, %s: tensor<8xf32>) {
  %y = tensor.rms_norm %x, %s : (tensor<?x5x8xf32>, tensor<8xf32>) -> tensor<?x5x8xf32>
  func.return
}
// CHECK: %y = tensor.rms_norm %x, %s : (tensor<?x5x8xf32>, tensor<8xf32>) -> tensor<?x5x8xf32>

func.func @f5(%x: tensor<8xf64>, %s: tensor<8xf64>) {
  %y = tensor.rms_norm %x, %s {epsilon = 1.0e-6 : f64} : (tensor<8xf64>, tensor<8xf64>)
      -> tensor<8xf64>
  func.return
}
// CHECK: %y = tensor.rms_norm %x, %s {epsilon = 1.000000e-06 : f64} : (tensor<8xf64>, tensor<8xf64>) -> tensor<8xf64>

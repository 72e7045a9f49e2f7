// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0() {
  %w = tensor.parameter "fc1.weight" : tensor<784x256xf32>
  func.return
}
// CHECK: %w = tensor.parameter "fc1.weight" : tensor<784x256xf32>

func.func @f1() {
  %w = tensor.parameter "bn.running_mean" buffer : tensor<8xbf16>
  func.return
}
// CHECK: %w = tensor.parameter "bn.running_mean" buffer : tensor<8xbf16>

func.func @f2() {
  %c = tensor.constant dense<[1.0, -2.5]> : tensor<2xf32>
  func.return
}
// CHECK: %c = tensor.constant dense<[1.000000e+00, -2.500000e+00]> : tensor<2xf32>

func.func @f3() {
  %c = tensor.constant dense<0> : tensor<100x100xi8>
  func.return
}
// CHECK: %c = tensor.constant dense<0> : tensor<100x100xi8>

func.func @f4() {
  %c = tensor.constant dense<[true, false]> : tensor<2xi1>
  func.return
}
// CHECK: %c = tensor.constant dense<[true, false]> : tensor<2xi1>

func.func @f5() {
  %c = tensor.constant dense<3> : tensor<i64>
  func.return
}
// CHECK: %c = tensor.constant dense<3> : tensor<i64>

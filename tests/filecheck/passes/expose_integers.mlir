// RUN: triton-opt %s -p expose-integers --split-input-file | filecheck %s

// The float argument that is only quantised, and the result that was only dequantised.
func.func @forward(%x: tensor<?x2xf32> {tensor.name = "pixels"}) -> tensor<?x2xf32> {
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i8>
  %q = tensor.quantize %x, %s, %z {low = -8 : i64, high = 7 : i64} : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
  %r = tensor.relu %q : (tensor<?x2xi8>) -> tensor<?x2xi8>
  %y = tensor.dequantize %r, %s, %z : (tensor<?x2xi8>, tensor<f32>, tensor<i8>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}
// CHECK: func.func @forward(%x: tensor<?x2xi8> {tensor.name = "pixels", tensor.quantized = {axis = 1 : i64, scale = dense<5.000000e-01> : tensor<f32>, zero_point = dense<3> : tensor<i8>, low = -8 : i64, high = 7 : i64}}) -> (tensor<?x2xi8> {tensor.quantized = {axis = 1 : i64, scale = dense<5.000000e-01> : tensor<f32>, zero_point = dense<3> : tensor<i8>}}) {
// CHECK-NEXT: %r = tensor.relu %x
// CHECK-NEXT: func.return %r

// -----

// A scale that is not known stays in the program.
func.func @forward(%x: tensor<?x2xf32>, %s: tensor<f32>) -> tensor<?x2xi8> {
  %z = tensor.constant dense<0> : tensor<i8>
  %q = tensor.quantize %x, %s, %z : (tensor<?x2xf32>, tensor<f32>, tensor<i8>) -> tensor<?x2xi8>
  func.return %q : tensor<?x2xi8>
}
// CHECK: func.func @forward(%x: tensor<?x2xf32>, %s: tensor<f32>) -> tensor<?x2xi8>
// CHECK: tensor.quantize %x, %s, %z

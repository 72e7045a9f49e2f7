// RUN: triton-opt %s --split-input-file -p expose-logits | filecheck %s

// Probabilities of 8 bits, as TFLite ends a classifier.
// CHECK: tensor.left_out = {{\[\[}}{op = "tensor.softmax", axis = 1 : i64}, {op = "tensor.quantize", {{.*}}scale = 3.906250e-03 : f64, zero_point = -128 : i64{{.*}}}]]
func.func @forward(%q: tensor<?x4xi8>) -> tensor<?x4xi8> {
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i8>
  %t = tensor.constant dense<0.00390625> : tensor<f32>
  %low = tensor.constant dense<-128> : tensor<i8>
  %x = tensor.dequantize %q, %s, %z : (tensor<?x4xi8>, tensor<f32>, tensor<i8>) -> tensor<?x4xf32>
  %p = tensor.softmax %x {axis = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = tensor.quantize %p, %t, %low : (tensor<?x4xf32>, tensor<f32>, tensor<i8>) -> tensor<?x4xi8>
  func.return %y : tensor<?x4xi8>
}
// CHECK: func.func @forward(%q: tensor<?x4xi8>) -> tensor<?x4xf32>
// CHECK: %[[X:.*]] = tensor.dequantize %q
// CHECK-NOT: softmax
// CHECK: func.return %[[X]]

// -----

// A softmax in the middle stays.
// CHECK-NOT: left_out
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %p = tensor.softmax %x {axis = 1 : i64} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  %y = tensor.mul %p, %x : (tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK: tensor.softmax

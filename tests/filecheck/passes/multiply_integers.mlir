// RUN: triton-opt %s -p multiply-integers,dce | filecheck %s

// CHECK-LABEL: func.func @linear
func.func @linear(%q: tensor<?x8xi8>) -> tensor<?x4xf32> {
  %s = tensor.constant dense<0.5> : tensor<f32>
  %z = tensor.constant dense<3> : tensor<i8>
  %x = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x8xf32>
  %p = tensor.constant dense<7> : tensor<8x4xi8>
  %t = tensor.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %o = tensor.constant dense<0> : tensor<4xi8>
  %w = tensor.dequantize %p, %t, %o {axis = 1 : i64} : (tensor<8x4xi8>, tensor<4xf32>, tensor<4xi8>) -> tensor<8x4xf32>
  %y = tensor.linear %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK: %[[WIDE:.*]] = tensor.convert %q : (tensor<?x8xi8>) -> tensor<?x8xi32>
// CHECK: %[[CENTRED:.*]] = tensor.sub %[[WIDE]]
// CHECK: %[[SUMS:.*]] = tensor.linear %[[CENTRED]], {{.*}} -> tensor<?x4xi32>
// CHECK: dense<[5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00]>
// CHECK: tensor.dequantize %[[SUMS]]

// CHECK-LABEL: func.func @computed
func.func @computed(%q: tensor<?x8xi8>, %s: tensor<f32>) -> tensor<?x4xf32> {
  %z = tensor.constant dense<3> : tensor<i8>
  %x = tensor.dequantize %q, %s, %z : (tensor<?x8xi8>, tensor<f32>, tensor<i8>) -> tensor<?x8xf32>
  %p = tensor.constant dense<7> : tensor<8x4xi8>
  %t = tensor.constant dense<1.0> : tensor<f32>
  %o = tensor.constant dense<0> : tensor<i8>
  %w = tensor.dequantize %p, %t, %o : (tensor<8x4xi8>, tensor<f32>, tensor<i8>) -> tensor<8x4xf32>
  %y = tensor.linear %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}
// CHECK: tensor.linear {{.*}} -> tensor<?x4xf32>

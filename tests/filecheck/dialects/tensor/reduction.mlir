// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x8x4x4xf32>) {
  %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>} : (tensor<?x8x4x4xf32>) ->
      tensor<?x8x2x3xf32>
  func.return
}
// CHECK: %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>} : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x3xf32>

func.func @f1(%x: tensor<1x8x?xi8>) {
  %y = tensor.max_pool %x {kernel = array<i64: 3>, strides = array<i64: 1>, padding =
      array<i64: 1, 1>} : (tensor<1x8x?xi8>) -> tensor<1x8x?xi8>
  func.return
}
// CHECK: %y = tensor.max_pool %x {kernel = array<i64: 3>, strides = array<i64: 1>, padding = array<i64: 1, 1>} : (tensor<1x8x?xi8>) -> tensor<1x8x?xi8>

func.func @f2(%x: tensor<?x8x4x4xf32>) {
  %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>} : (tensor<?x8x4x4xf32>) ->
      tensor<?x8x2x3xf32>
  func.return
}
// CHECK: %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>} : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x3xf32>

func.func @f3(%x: tensor<?x8x4x4xf32>) {
  %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>, count_include_pad = false}
      : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x3xf32>
  func.return
}
// CHECK: %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 1>, count_include_pad = false} : (tensor<?x8x4x4xf32>) -> tensor<?x8x2x3xf32>

func.func @f4(%x: tensor<?x8x4x4xf32>) {
  %y = tensor.global_avg_pool %x : (tensor<?x8x4x4xf32>) -> tensor<?x8x1x1xf32>
  func.return
}
// CHECK: %y = tensor.global_avg_pool %x : (tensor<?x8x4x4xf32>) -> tensor<?x8x1x1xf32>

func.func @f5(%x: tensor<2x4xi8>) {
  %y = tensor.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x4xi8>) -> tensor<2xi8>
  func.return
}
// CHECK: %y = tensor.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x4xi8>) -> tensor<2xi8>

func.func @f6(%x: tensor<?x4xf32>) {
  %y = tensor.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = true} : (tensor<?x4xf32>)
      -> tensor<1x1xf32>
  func.return
}
// CHECK: %y = tensor.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = true} : (tensor<?x4xf32>) -> tensor<1x1xf32>

func.func @f7(%x: tensor<?x4xf32>) {
  %y = tensor.reduce_mean %x {axes = array<i64: -1>} : (tensor<?x4xf32>) -> tensor<?xf32>
  func.return
}
// CHECK: %y = tensor.reduce_mean %x {axes = array<i64: -1>} : (tensor<?x4xf32>) -> tensor<?xf32>

func.func @f8(%x: tensor<?x4xi1>) {
  %y = tensor.reduce_max %x {axes = array<i64: 0>} : (tensor<?x4xi1>) -> tensor<4xi1>
  func.return
}
// CHECK: %y = tensor.reduce_max %x {axes = array<i64: 0>} : (tensor<?x4xi1>) -> tensor<4xi1>

func.func @f9(%x: tensor<?x4xf32>) {
  %y = tensor.reduce_min %x {axes = array<i64>} : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = tensor.reduce_min %x {axes = array<i64>} : (tensor<?x4xf32>) -> tensor<?x4xf32>

func.func @f10(%x: tensor<2x4xf32>) {
  %y = tensor.argmax %x : (tensor<2x4xf32>) -> tensor<2xi64>
  func.return
}
// CHECK: %y = tensor.argmax %x : (tensor<2x4xf32>) -> tensor<2xi64>

func.func @f11(%x: tensor<2x4xi32>) {
  %y = tensor.argmax %x {axis = 0 : i64, keepdims = true} : (tensor<2x4xi32>) -> tensor<1x4xi64>
  func.return
}
// CHECK: %y = tensor.argmax %x {axis = 0 : i64, keepdims = true} : (tensor<2x4xi32>) -> tensor<1x4xi64>

func.func @f12(%x: tensor<?x4xf32>) {
  %y = tensor.reduce_variance %x {axes = array<i64: 0>} : (tensor<?x4xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.reduce_variance %x {axes = array<i64: 0>} : (tensor<?x4xf32>) -> tensor<4xf32>

func.func @f13(%x: tensor<?x4xf16>) {
  %y = tensor.reduce_variance %x {axes = array<i64: -1>, correction = 1.0 : f64, keepdims = true} :
      (tensor<?x4xf16>) -> tensor<?x1xf16>
  func.return
}
// CHECK: %y = tensor.reduce_variance %x {axes = array<i64: -1>, correction = 1.000000e+00 : f64, keepdims = true} : (tensor<?x4xf16>) -> tensor<?x1xf16>

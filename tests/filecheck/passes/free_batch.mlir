// RUN: triton-opt %s --split-input-file -p free-batch | filecheck %s
// RUN: triton-opt %s --split-input-file --verify-diagnostics -p free-batch{strict=true} | filecheck %s --check-prefix=STRICT

func.func @forward(%x: tensor<7x2x3xf32> {tensor.dimensions = ["7", "2", "3"]}) -> tensor<7x6xf32> {
  %y = tensor.reshape_to %x {shape = array<i64: 7, 6>} : (tensor<7x2x3xf32>) -> tensor<7x6xf32>
  %z = tensor.softmax %y {axis = 1 : i64} : (tensor<7x6xf32>) -> tensor<7x6xf32>
  func.return %z : tensor<7x6xf32>
}
// CHECK: func.func @forward(%x: tensor<?x2x3xf32> {tensor.dimensions = ["batch", "2", "3"]}) -> tensor<?x6xf32>
// CHECK-NEXT: tensor.reshape_to %x {shape = array<i64: -2, 6>}
// STRICT: tensor<?x2x3xf32>

// -----

// The mean of all samples: they are not taken one by one.
func.func @forward(%x: tensor<7x3xf32>) -> tensor<7x3xf32> {
  // expected-error @+1 {{'tensor.reduce_mean' does not keep the first axis}}
  %m = tensor.reduce_mean %x {axes = array<i64: 0>, keepdims = true} : (tensor<7x3xf32>) -> tensor<1x3xf32>
  %y = tensor.sub %x, %m : (tensor<7x3xf32>, tensor<1x3xf32>) -> tensor<7x3xf32>
  func.return %y : tensor<7x3xf32>
}
// CHECK: func.func @forward(%x: tensor<7x3xf32>)

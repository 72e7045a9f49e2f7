// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+1 {{'tensor.max_pool' expects an image of rank 3 or 4 and a kernel to match, got tensor<1x3x8x8xf32>}}
  %y = tensor.max_pool %x {kernel = array<i64: 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+1 {{'tensor.max_pool' expects 2 strides of at least 1, got [0, 2]}}
  %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 0, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x8x8xf32>) ->
      tensor<1x3x4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+1 {{'tensor.max_pool' expects padding of at most half the kernel, got [0, 0, 2, 0]}}
  %y = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 0, 2, 0>} : (tensor<1x3x8x8xf32>) ->
      tensor<1x3x5x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>) {
  // expected-error @+1 {{'tensor.max_pool' expects a window of at most 8, got 9}}
  %y = tensor.max_pool %x {kernel = array<i64: 9, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x8x8xf32>) ->
      tensor<1x3x1x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xi8>) {
  // expected-error @+1 {{'tensor.avg_pool' expects floating-point elements, got tensor<1x3x8x8xi8>}}
  %y = tensor.avg_pool %x {kernel = array<i64: 2, 2>, strides =
      array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<1x3x8x8xi8>) ->
      tensor<1x3x4x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<1x3xf32>) {
  // expected-error @+1 {{'tensor.global_avg_pool' expects an image of rank 3 or more, got tensor<1x3xf32>}}
  %y = tensor.global_avg_pool %x : (tensor<1x3xf32>) -> tensor<1x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x4xi8>) {
  // expected-error @+1 {{'tensor.global_avg_pool' expects floating-point elements, got tensor<1x3x4xi8>}}
  %y = tensor.global_avg_pool %x : (tensor<1x3x4xi8>) -> tensor<1x3x1xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reduce_sum' expects axis in [-2, 2), got 2}}
  %y = tensor.reduce_sum %x {axes = array<i64: 2>} : (tensor<2x4xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xi1>) {
  // expected-error @+1 {{'tensor.reduce_sum' expects floats or integers, got tensor<2x4xi1>}}
  %y = tensor.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x4xi1>) -> tensor<2xi1>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reduce_max' expects distinct axes, got [1, -1]}}
  %y = tensor.reduce_max %x {axes = array<i64: 1, -1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xi32>) {
  // expected-error @+1 {{'tensor.reduce_mean' expects floating-point elements, got tensor<2x4xi32>}}
  %y = tensor.reduce_mean %x {axes = array<i64: 1>} : (tensor<2x4xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reduce_min' result 0 has type tensor<2xf32>, expected tensor<2x1xf32>}}
  %y = tensor.reduce_min %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x4xf32>)
      -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.argmax' expects axis in [-2, 2), got 2}}
  %y = tensor.argmax %x {axis = 2 : i64} : (tensor<2x4xf32>) -> tensor<2xi64>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.argmax' result 0 has type tensor<2xi32>, expected tensor<2xi64>}}
  %y = tensor.argmax %x : (tensor<2x4xf32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xi32>) {
  // expected-error @+1 {{'tensor.reduce_variance' expects floating-point elements, got tensor<2x4xi32>}}
  %y = tensor.reduce_variance %x {axes = array<i64: 1>} : (tensor<2x4xi32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reduce_variance' expects a finite correction, got inf}}
  %y = tensor.reduce_variance %x {axes = array<i64: 1>, correction = 0x7FF0000000000000 : f64} :
      (tensor<2x4xf32>) -> tensor<2xf32>
  func.return
}

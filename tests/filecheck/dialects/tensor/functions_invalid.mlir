// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of functions of numbers, bits and axes refuses, and what it says.

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.sin' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.sin %x : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.is_nan' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.is_nan %x : (tensor<4xi32>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.is_inf' result 0 has type tensor<4xf32>, expected tensor<4xi1>}}
  %y = tensor.is_inf %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.shift_left' expects integers, got tensor<4xf32>}}
  %y = tensor.shift_left %x, %x : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'tensor.hypot' expects floating-point elements, got tensor<4xi8>}}
  %y = tensor.hypot %x, %x : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.cumsum' expects axis in [-1, 1), got 1}}
  %y = tensor.cumsum %x {axis = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi1>) {
  // expected-error @+1 {{'tensor.cumprod' expects floats or integers, got tensor<4xi1>}}
  %y = tensor.cumprod %x : (tensor<4xi1>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.top_k' expects a k of at most the size of the axis, got 5 for tensor<4xf32>}}
  %y, %i = tensor.top_k %x {k = 5 : i64} : (tensor<4xf32>) -> (tensor<5xf32>, tensor<5xi64>)
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<2x4xi64>) {
  // expected-error @+1 {{'tensor.gather_elements' expects indices with the axes of tensor<4xf32>, got tensor<2x4xi64>}}
  %y = tensor.gather_elements %x, %i {axis = 0 : i64} : (tensor<4xf32>, tensor<2x4xi64>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.gather_elements' expects integer indices, got tensor<4xf32>}}
  %y = tensor.gather_elements %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<2xi64>) {
  // expected-error @+1 {{'tensor.scatter_elements' expects updates of the elements of tensor<4xf32> at tensor<2xi64>, got tensor<4xf32>}}
  %y = tensor.scatter_elements %x, %i, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<2xi64>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %i: tensor<4xi64>) {
  // expected-error @+1 {{'tensor.scatter_elements' expects reduction 'none' or 'add', got 'max'}}
  %y = tensor.scatter_elements %x, %i, %x {axis = 0 : i64, reduction = "max"} : (tensor<4xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.reduce_log_sum_exp' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.reduce_log_sum_exp %x {axes = array<i64: 0>} : (tensor<4xi32>) -> tensor<i32>
  func.return
}

// -----

func.func @f(%i: tensor<4xf32>, %x: tensor<f32>) {
  // expected-error @+1 {{'tensor.one_hot' expects integer indices, got tensor<4xf32>}}
  %y = tensor.one_hot %i, %x, %x {depth = 3 : i64} : (tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @f(%i: tensor<4xi8>, %x: tensor<1xf32>) {
  // expected-error @+1 {{'tensor.one_hot' expects two numbers of one type to choose from, got tensor<1xf32> and tensor<1xf32>}}
  %y = tensor.one_hot %i, %x, %x {depth = 3 : i64} : (tensor<4xi8>, tensor<1xf32>, tensor<1xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @f(%i: tensor<4xi8>, %x: tensor<f32>) {
  // expected-error @+1 {{'tensor.one_hot' expects a depth of 0 to 16777216, got -1}}
  %y = tensor.one_hot %i, %x, %x {depth = -1 : i64} : (tensor<4xi8>, tensor<f32>, tensor<f32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @f(%i: tensor<4xi8>, %x: tensor<f32>) {
  // expected-error @+1 {{'tensor.one_hot' expects axis in [-2, 2), got 2}}
  %y = tensor.one_hot %i, %x, %x {depth = 3 : i64, axis = 2 : i64} : (tensor<4xi8>, tensor<f32>, tensor<f32>) -> tensor<4x3xf32>
  func.return
}

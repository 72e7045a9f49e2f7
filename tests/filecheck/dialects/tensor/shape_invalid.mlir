// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reshape_to' expects at most one -1 in shape, got [-1, -1]}}
  %y = tensor.reshape_to %x {shape = array<i64: -1, -1>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reshape_to' cannot reshape 2x4 to [3, -1]: 8 is no multiple of 3}}
  %y = tensor.reshape_to %x {shape = array<i64: 3, -1>} : (tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reshape_to' cannot reshape 2x4 to [3, 3]: 8 elements against 9}}
  %y = tensor.reshape_to %x {shape = array<i64: 3, 3>} : (tensor<2x4xf32>) -> tensor<3x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{'tensor.reshape_to' cannot reshape ?x8 to [-2, 2, 3]: 8 elements against 6}}
  %y = tensor.reshape_to %x {shape = array<i64: -2, 2, 3>} : (tensor<?x8xf32>) ->
      tensor<?x2x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.reshape_to' expects copied axis in [-2, 2), got 2}}
  %y = tensor.reshape_to %x {shape = array<i64: -4, 8>} : (tensor<2x4xf32>) -> tensor<1x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<6xf32>, %like: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.unflatten' cannot split 6 into 2x4}}
  %y = tensor.unflatten %x, %like : (tensor<6xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<6xf32>, %like: tensor<6xf32>) {
  // expected-error @+1 {{'tensor.unflatten' expects an axis to split into 1 to 1, got 2 for tensor<6xf32>}}
  %y = tensor.unflatten %x, %like : (tensor<6xf32>, tensor<6xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error @+1 {{'tensor.flatten' expects start <= end, got axes 2 and 1}}
  %y = tensor.flatten %x {start = 2 : i64, end = 1 : i64} : (tensor<2x3x4xf32>) ->
      tensor<24xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3x4xf32>) {
  // expected-error @+1 {{'tensor.flatten' expects start in [-3, 3), got 3}}
  %y = tensor.flatten %x {start = 3 : i64} : (tensor<2x3x4xf32>) -> tensor<24xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.permute' expects a permutation of 2 axes, got [0, 0]}}
  %y = tensor.permute %x {perm = array<i64: 0, 0>} : (tensor<2x4xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.permute' result 0 has type tensor<2x4xf32>, expected tensor<4x2xf32>}}
  %y = tensor.permute %x {perm = array<i64: 1, 0>} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f() {
  // expected-error @+1 {{'tensor.concatenate' expects at least one operand}}
  %y = tensor.concatenate {axis = 0 : i64} : () -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.concatenate' expects equal ranks, got 2 and 1}}
  %z = tensor.concatenate %x, %y {axis = 0 : i64} : (tensor<2x4xf32>, tensor<4xf32>) ->
      tensor<3x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>, %y: tensor<2x5xf32>) {
  // expected-error @+1 {{'tensor.concatenate' expects equal sizes of axis 1, got 4 and 5}}
  %z = tensor.concatenate %x, %y {axis = 0 : i64} : (tensor<2x4xf32>, tensor<2x5xf32>)
      -> tensor<4x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<2xi8>) {
  // expected-error @+1 {{'tensor.concatenate' expects equal element types, got tensor<2xf32> and tensor<2xi8>}}
  %z = tensor.concatenate %x, %y {axis = 0 : i64} : (tensor<2xf32>, tensor<2xi8>) ->
      tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<5xf32>) {
  // expected-error @+1 {{'tensor.split' expects sizes of at least 0, got [6, -1]}}
  %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 6, -1>} : (tensor<5xf32>)
      -> (tensor<6xf32>, tensor<1xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<5xf32>) {
  // expected-error @+1 {{'tensor.split' expects equal size of the axis and sum of sizes, got 5 and 4}}
  %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 2, 2>} : (tensor<5xf32>)
      -> (tensor<2xf32>, tensor<2xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<5xf32>) {
  // expected-error @+1 {{'tensor.split' has 2 results, expected 1}}
  %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 5>} : (tensor<5xf32>)
      -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.slice' expects 2 starts, ends and steps}}
  %y = tensor.slice %x {starts = array<i64: 0>, ends = array<i64: 2>, steps = array<i64: 1>}
      : (tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.slice' expects steps of at least 1, got [0]}}
  %y = tensor.slice %x {starts = array<i64: 0>, ends = array<i64: 2>, steps = array<i64: 0>}
      : (tensor<4xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.pad_to' expects 1 pads of at least 0, got [0] and [-1]}}
  %y = tensor.pad_to %x {low = array<i64: 0>, high = array<i64: -1>} : (tensor<4xf32>)
      -> tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'tensor.pad_to' expects a value that is an element of tensor<4xi8>, got 0.5}}
  %y = tensor.pad_to %x {low = array<i64: 0>, high = array<i64: 1>, value = 0.5 : f64}
      : (tensor<4xi8>) -> tensor<5xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x1xf32>) {
  // expected-error @+1 {{'tensor.squeeze' expects equal size of axis 0 and 1, got 2 and 1}}
  %y = tensor.squeeze %x {axes = array<i64: 0>} : (tensor<2x1xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x1xf32>) {
  // expected-error @+1 {{'tensor.squeeze' expects distinct axes, got [0, -2]}}
  %y = tensor.squeeze %x {axes = array<i64: 0, -2>} : (tensor<1x1xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.unsqueeze' expects axis in [-2, 2), got 2}}
  %y = tensor.unsqueeze %x {axes = array<i64: 2>} : (tensor<4xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'tensor.expand' cannot expand 1x4 to [4]}}
  %y = tensor.expand %x {shape = array<i64: 4>} : (tensor<1x4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x4xf32>) {
  // expected-error @+1 {{'tensor.expand' cannot expand 1x4 to [3, 5]}}
  %y = tensor.expand %x {shape = array<i64: 3, 5>} : (tensor<1x4xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

func.func @f(%t: tensor<f32>, %i: tensor<5xi64>) {
  // expected-error @+1 {{'tensor.gather_rows' expects a table of rank 1 or more, got tensor<f32>}}
  %y = tensor.gather_rows %t, %i : (tensor<f32>, tensor<5xi64>) -> tensor<5xf32>
  func.return
}

// -----

func.func @f(%t: tensor<9x2xf32>, %i: tensor<5xf32>) {
  // expected-error @+1 {{'tensor.gather_rows' expects integer indices, got tensor<5xf32>}}
  %y = tensor.gather_rows %t, %i : (tensor<9x2xf32>, tensor<5xf32>) -> tensor<5x2xf32>
  func.return
}

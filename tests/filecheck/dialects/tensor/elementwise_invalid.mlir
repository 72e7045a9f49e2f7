// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.exp' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.exp %x : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi1>) {
  // expected-error @+1 {{'tensor.neg' expects numbers, got tensor<4xi1>}}
  %y = tensor.neg %x : (tensor<4xi1>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.abs' result 0 has type tensor<5xf32>, expected tensor<4xf32>}}
  %y = tensor.abs %x : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.abs' result 0 has type tensor<4xf64>, expected tensor<4xf32>}}
  %y = tensor.abs %x : (tensor<4xf32>) -> tensor<4xf64>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.abs' result 0 has type tensor<1x4xf32>, expected tensor<4xf32>}}
  %y = tensor.abs %x : (tensor<4xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf64>) {
  // expected-error @+1 {{'tensor.add' expects equal element types, got tensor<4xf32> and tensor<4xf64>}}
  %z = tensor.add %x, %y : (tensor<4xf32>, tensor<4xf64>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x4xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'tensor.mul' cannot broadcast shapes 2x4 and 3 together}}
  %z = tensor.mul %x, %y : (tensor<2x4xf32>, tensor<3xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi1>, %y: tensor<4xi1>) {
  // expected-error @+1 {{'tensor.sub' expects floats or integers, got tensor<4xi1>}}
  %z = tensor.sub %x, %y : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4x!ternary.trit>, %y: tensor<4x!ternary.trit>) {
  // expected-error @+1 {{'tensor.maximum' expects floats or integers, got tensor<4x!ternary.trit>}}
  %z = tensor.maximum %x, %y : (tensor<4x!ternary.trit>, tensor<4x!ternary.trit>) ->
      tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>, %y: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.pow' expects floating-point elements, got tensor<4xi32>}}
  %z = tensor.pow %x, %y : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.and' expects truth values or integers, got tensor<4xf32>}}
  %z = tensor.and %x, %y : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf16>) {
  // expected-error @+1 {{'tensor.not' expects truth values or integers, got tensor<4xf16>}}
  %y = tensor.not %x : (tensor<4xf16>) -> tensor<4xf16>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.compare' expects predicate one of eq, ne, lt, le, gt, ge, got 'less'}}
  %z = tensor.compare %x, %y {predicate = "less"} : (tensor<4xf32>, tensor<4xf32>) ->
      tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.compare' result 0 has type tensor<4xf32>, expected tensor<4xi1>}}
  %z = tensor.compare %x, %y {predicate = "lt"} : (tensor<4xf32>, tensor<4xf32>) ->
      tensor<4xf32>
  func.return
}

// -----

func.func @f(%c: tensor<4xi8>, %x: tensor<4xf32>, %y: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.where' expects an i1 condition, got tensor<4xi8>}}
  %z = tensor.where %c, %x, %y : (tensor<4xi8>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf16>) {
  // expected-error @+1 {{'tensor.where' expects equal element types, got tensor<4xf32> and tensor<4xf16>}}
  %z = tensor.where %c, %x, %y : (tensor<4xi1>, tensor<4xf32>, tensor<4xf16>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%c: tensor<3xi1>, %x: tensor<4xf32>, %y: tensor<f32>) {
  // expected-error @+1 {{'tensor.where' cannot broadcast shapes 3 and 4 and scalar together}}
  %z = tensor.where %c, %x, %y : (tensor<3xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.convert' expects f16, bf16, f32, f64, i1, i8, i16, i32 or i64, got tensor<4xi3>}}
  %y = tensor.convert %x : (tensor<4xf32>) -> tensor<4xi3>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.convert' result 0 has type tensor<5xi8>, expected tensor<4xi8>}}
  %y = tensor.convert %x : (tensor<4xf32>) -> tensor<5xi8>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.clamp' expects min <= max, got 2.0 > 1.0}}
  %y = tensor.clamp %x {min = 2.0 : f64, max = 1.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'tensor.clamp' expects a bound that is an element of tensor<4xi8>, got 0.5}}
  %y = tensor.clamp %x {min = 0.5 : f64} : (tensor<4xi8>) -> tensor<4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.clamp' expects a bound that is an element of tensor<4xf32>, got nan}}
  %y = tensor.clamp %x {max = 0x7FF8000000000000 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x!ternary.trit>) {
  // expected-error @+1 {{'tensor.clamp' expects floats or integers, got tensor<4x!ternary.trit>}}
  %y = tensor.clamp %x {max = 1.0 : f64} : (tensor<4x!ternary.trit>) -> tensor<4x!ternary.trit>
  func.return
}

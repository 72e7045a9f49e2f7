// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<2x8xf32>, %y: tensor<7x4xf32>) {
  // expected-error @+1 {{'tensor.matmul' expects equal inner dimensions, got 8 and 7}}
  %z = tensor.matmul %x, %y : (tensor<2x8xf32>, tensor<7x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %y: tensor<8x4xf16>) {
  // expected-error @+1 {{'tensor.matmul' expects equal element types, got tensor<2x8xf32> and tensor<8x4xf16>}}
  %z = tensor.matmul %x, %y : (tensor<2x8xf32>, tensor<8x4xf16>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<f32>, %y: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.matmul' expects operands of rank 1 or more, got a scalar}}
  %z = tensor.matmul %x, %y : (tensor<f32>, tensor<8xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @f(%x: tensor<8xi1>, %y: tensor<8xi1>) {
  // expected-error @+1 {{'tensor.matmul' expects floats or integers, got tensor<8xi1>}}
  %z = tensor.matmul %x, %y : (tensor<8xi1>, tensor<8xi1>) -> tensor<i1>
  func.return
}

// -----

func.func @f(%x: tensor<2x1x8xf32>, %y: tensor<3x8x4xf32>) {
  // expected-error @+1 {{'tensor.matmul' cannot broadcast shapes 2 and 3 together}}
  %z = tensor.matmul %x, %y : (tensor<2x1x8xf32>, tensor<3x8x4xf32>) -> tensor<2x1x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<1x8x4xf32>) {
  // expected-error @+1 {{'tensor.linear' expects a weight of rank 2, got rank 3}}
  %y = tensor.linear %x, %w : (tensor<2x8xf32>, tensor<1x8x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4xf32>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'tensor.linear' expects bias of 4 elements, got tensor<5xf32>}}
  %y = tensor.linear %x, %w, %b : (tensor<2x8xf32>, tensor<8x4xf32>, tensor<5xf32>) ->
      tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf64>) {
  // expected-error @+1 {{'tensor.linear' expects equal element types, got tensor<2x8xf32> and tensor<4xf64>}}
  %y = tensor.linear %x, %w, %b : (tensor<2x8xf32>, tensor<8x4xf32>, tensor<4xf64>) ->
      tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{'tensor.conv' expects input and weight of rank 3 (1-d) or 4 (2-d), got ranks 2 and 2}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x8xf32>,
      tensor<4x8xf32>) -> tensor<1x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects input and weight of rank 3 (1-d) or 4 (2-d), got ranks 4 and 3}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects equal input channels, got 3 and 2}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x2x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x1x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects groups that divide 4 output channels, got 3}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>, groups = 3 : i64}
      : (tensor<1x3x8x8xf32>, tensor<4x1x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects 2 strides of at least 1, got [1]}}
  %y = tensor.conv %x, %w {strides = array<i64: 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects 4 padding of at least 0, got [0, 0, 0, -1]}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, -1>, dilation = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects 2 dilation of at least 1, got [0, 1]}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 0, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x2x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects a window of at most 2, got 3}}
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x2x8xf32>,
      tensor<4x3x3x3xf32>) -> tensor<1x4x1x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'tensor.conv' expects bias of 4 elements, got tensor<3xf32>}}
  %y = tensor.conv %x, %w, %b {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : (tensor<1x3x8x8xf32>,
      tensor<4x3x3x3xf32>, tensor<3xf32>) -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>) {
  // expected-error @+1 {{'tensor.einsum' expects an equation such as 'ij,jk->ik' for 2 operands, got 'ij,jk'}}
  %z = tensor.einsum %x, %y {equation = "ij,jk"} : (tensor<2x3xf32>, tensor<3x4xf32>) ->
      tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{got 'I,j->j'}}
  %z = tensor.einsum %x, %y {equation = "I,j->j"} : (tensor<2xf32>, tensor<3xf32>) ->
      tensor<3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // expected-error @+1 {{'tensor.einsum' expects rank 2 for 'jk', got tensor<3xf32>}}
  %z = tensor.einsum %x, %y {equation = "ij,jk->ik"} : (tensor<2x3xf32>, tensor<3xf32>)
      -> tensor<2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>, %y: tensor<4x5xf32>) {
  // expected-error @+1 {{'tensor.einsum' expects equal sizes of 'j', got 3 and 4}}
  %z = tensor.einsum %x, %y {equation = "ij,jk->ik"} : (tensor<2x3xf32>, tensor<4x5xf32>)
      -> tensor<2x5xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'tensor.einsum' expects distinct result letters that occur in operands, got 'ik'}}
  %z = tensor.einsum %x {equation = "ij->ik"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @+1 {{'tensor.einsum' expects distinct result letters that occur in operands, got 'ii'}}
  %z = tensor.einsum %x {equation = "ij->ii"} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @f(%q: tensor<4x8xi8>, %k: tensor<4x8xi8>, %v: tensor<4x8xi8>) {
  // expected-error @+1 {{expects floating-point elements, got tensor<4x8xi8>}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<4x8xi8>, tensor<4x8xi8>,
      tensor<4x8xi8>) -> tensor<4x8xi8>
  func.return
}

// -----

func.func @f(%q: tensor<8xf32>, %k: tensor<4x8xf32>, %v: tensor<4x8xf32>) {
  // expected-error @+1 {{expects operands of rank 2 or more}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<8xf32>, tensor<4x8xf32>,
      tensor<4x8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<4x8xf32>, %k: tensor<4x7xf32>, %v: tensor<4x8xf32>) {
  // expected-error @+1 {{expects equal query and key sizes, got 8 and 7}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<4x8xf32>,
      tensor<4x7xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<4x8xf32>, %k: tensor<4x8xf32>, %v: tensor<5x8xf32>) {
  // expected-error @+1 {{expects equal key and value lengths, got 4 and 5}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<4x8xf32>,
      tensor<4x8xf32>, tensor<5x8xf32>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<4x8xf32>, %k: tensor<5x8xf32>, %v: tensor<5x8xf32>, %m: tensor<4x5xi8>) {
  // expected-error @+1 {{expects a mask of i1 or f32, got tensor<4x5xi8>}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v, %m : (tensor<4x8xf32>,
      tensor<5x8xf32>, tensor<5x8xf32>, tensor<4x5xi8>) -> tensor<4x8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<4x8xf32>, %k: tensor<5x8xf32>, %v: tensor<5x8xf32>, %m: tensor<2x4x5xi1>) {
  // expected-error @+1 {{expects a mask that broadcasts to 4x5, got tensor<2x4x5xi1>}}
  %o = tensor.scaled_dot_product_attention %q, %k, %v, %m : (tensor<4x8xf32>,
      tensor<5x8xf32>, tensor<5x8xf32>, tensor<2x4x5xi1>) -> tensor<2x4x8xf32>
  func.return
}

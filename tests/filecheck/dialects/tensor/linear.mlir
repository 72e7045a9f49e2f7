// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x8xf32>, %y: tensor<8x4xf32>) {
  %z = tensor.matmul %x, %y : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %z = tensor.matmul %x, %y : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>

func.func @f1(%x: tensor<8xi32>, %y: tensor<8xi32>) {
  %z = tensor.matmul %x, %y : (tensor<8xi32>, tensor<8xi32>) -> tensor<i32>
  func.return
}
// CHECK: %z = tensor.matmul %x, %y : (tensor<8xi32>, tensor<8xi32>) -> tensor<i32>

func.func @f2(%x: tensor<2x1x3x8xf32>, %y: tensor<5x8x4xf32>) {
  %z = tensor.matmul %x, %y : (tensor<2x1x3x8xf32>, tensor<5x8x4xf32>) -> tensor<2x5x3x4xf32>
  func.return
}
// CHECK: %z = tensor.matmul %x, %y : (tensor<2x1x3x8xf32>, tensor<5x8x4xf32>) -> tensor<2x5x3x4xf32>

func.func @f3(%x: tensor<?x8xf32>, %w: tensor<8x4xf32>) {
  %y = tensor.linear %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
  func.return
}
// CHECK: %y = tensor.linear %x, %w : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>

func.func @f4(%x: tensor<?x?x8xf32>, %w: tensor<8x4xf32>, %b: tensor<4xf32>) {
  %y = tensor.linear %x, %w, %b : (tensor<?x?x8xf32>, tensor<8x4xf32>, tensor<4xf32>) ->
      tensor<?x?x4xf32>
  func.return
}
// CHECK: %y = tensor.linear %x, %w, %b : (tensor<?x?x8xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<?x?x4xf32>

func.func @f5(%x: tensor<?x3x32x32xf32>, %w: tensor<8x3x3x3xf32>) {
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<?x3x32x32xf32>,
      tensor<8x3x3x3xf32>) -> tensor<?x8x32x32xf32>
  func.return
}
// CHECK: %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : (tensor<?x3x32x32xf32>, tensor<8x3x3x3xf32>) -> tensor<?x8x32x32xf32>

func.func @f6(%x: tensor<?x3x?x32xf32>, %w: tensor<6x1x3x3xf32>, %b: tensor<6xf32>) {
  %y = tensor.conv %x, %w, %b {strides = array<i64: 1, 1>, padding =
      array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64}
      : (tensor<?x3x?x32xf32>, tensor<6x1x3x3xf32>, tensor<6xf32>) -> tensor<?x6x?x32xf32>
  func.return
}
// CHECK: %y = tensor.conv %x, %w, %b {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 3 : i64} : (tensor<?x3x?x32xf32>, tensor<6x1x3x3xf32>, tensor<6xf32>) -> tensor<?x6x?x32xf32>

func.func @f7(%x: tensor<1x3x20xi32>, %w: tensor<8x3x3xi32>) {
  %y = tensor.conv %x, %w {strides = array<i64: 2>, padding =
      array<i64: 0, 2>, dilation = array<i64: 3>} : (tensor<1x3x20xi32>, tensor<8x3x3xi32>)
      -> tensor<1x8x8xi32>
  func.return
}
// CHECK: %y = tensor.conv %x, %w {strides = array<i64: 2>, padding = array<i64: 0, 2>, dilation = array<i64: 3>} : (tensor<1x3x20xi32>, tensor<8x3x3xi32>) -> tensor<1x8x8xi32>

func.func @f8(%x: tensor<?x3x4xf32>, %y: tensor<?x4x5xf32>) {
  %z = tensor.einsum %x, %y {equation = "bij,bjk->bik"} : (tensor<?x3x4xf32>,
      tensor<?x4x5xf32>) -> tensor<?x3x5xf32>
  func.return
}
// CHECK: %z = tensor.einsum %x, %y {equation = "bij,bjk->bik"} : (tensor<?x3x4xf32>, tensor<?x4x5xf32>) -> tensor<?x3x5xf32>

func.func @f9(%x: tensor<3x4xf32>) {
  %z = tensor.einsum %x {equation = "ij->"} : (tensor<3x4xf32>) -> tensor<f32>
  func.return
}
// CHECK: %z = tensor.einsum %x {equation = "ij->"} : (tensor<3x4xf32>) -> tensor<f32>

func.func @f10(%q: tensor<2x4x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x6xf32>) {
  %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<2x4x8xf32>,
      tensor<2x5x8xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>
  func.return
}
// CHECK: %o = tensor.scaled_dot_product_attention %q, %k, %v : (tensor<2x4x8xf32>, tensor<2x5x8xf32>, tensor<2x5x6xf32>) -> tensor<2x4x6xf32>

func.func @f11(%q: tensor<?x4x8xf32>, %k: tensor<?x5x8xf32>, %v: tensor<?x5x6xf32>, %m: tensor<4x5xi1>) {
  %o = tensor.scaled_dot_product_attention %q, %k, %v, %m {scale = 0.5 : f64}
      : (tensor<?x4x8xf32>, tensor<?x5x8xf32>, tensor<?x5x6xf32>, tensor<4x5xi1>) ->
      tensor<?x4x6xf32>
  func.return
}
// CHECK: %o = tensor.scaled_dot_product_attention %q, %k, %v, %m {scale = 5.000000e-01 : f64} : (tensor<?x4x8xf32>, tensor<?x5x8xf32>, tensor<?x5x6xf32>, tensor<4x5xi1>) -> tensor<?x4x6xf32>

func.func @f12(%q: tensor<4x8xf16>, %k: tensor<4x8xf16>, %v: tensor<4x8xf16>) {
  %o = tensor.scaled_dot_product_attention %q, %k, %v {is_causal = true}
      : (tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>
  func.return
}
// CHECK: %o = tensor.scaled_dot_product_attention %q, %k, %v {is_causal = true} : (tensor<4x8xf16>, tensor<4x8xf16>, tensor<4x8xf16>) -> tensor<4x8xf16>

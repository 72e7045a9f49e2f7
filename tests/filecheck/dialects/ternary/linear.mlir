// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x784xf32>, %w: tensor<784x10x!ternary.trit>) {
  %z = ternary.matmul %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit> ->
      tensor<?x10xf32>
  func.return
}
// CHECK: %z = ternary.matmul %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

func.func @f1(%x: tensor<?x784xf32>, %w: tensor<784x10x!ternary.trit>, %s: tensor<10xf32>) {
  %z = ternary.matmul %x, %w scale(%s : tensor<10xf32>) : tensor<?x784xf32>,
      tensor<784x10x!ternary.trit> -> tensor<?x10xf32>
  func.return
}
// CHECK: %z = ternary.matmul %x, %w scale(%s : tensor<10xf32>) : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

func.func @f2(%x: tensor<2x3x784x!ternary.trit>, %w: tensor<784x10x!ternary.trit>) {
  %z = ternary.matmul %x, %w : tensor<2x3x784x!ternary.trit>, tensor<784x10x!ternary.trit>
      -> tensor<2x3x10xi32>
  func.return
}
// CHECK: %z = ternary.matmul %x, %w : tensor<2x3x784x!ternary.trit>, tensor<784x10x!ternary.trit> -> tensor<2x3x10xi32>

func.func @f3(%x: tensor<?x784xf32>, %w: tensor<784x10x!ternary.trit>) {
  %y = ternary.linear %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit> ->
      tensor<?x10xf32>
  func.return
}
// CHECK: %y = ternary.linear %x, %w : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

func.func @f4(%x: tensor<?x784xf32>, %w: tensor<784x10x!ternary.trit>, %s: tensor<f32>, %b: tensor<10xf32>) {
  %y = ternary.linear %x, %w scale(%s : tensor<f32>) bias(%b : tensor<10xf32>)
      {activation = "relu6"} : tensor<?x784xf32>, tensor<784x10x!ternary.trit> ->
      tensor<?x10xf32>
  func.return
}
// CHECK: %y = ternary.linear %x, %w scale(%s : tensor<f32>) bias(%b : tensor<10xf32>) {activation = "relu6"} : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

func.func @f5(%x: tensor<?x784xi8>, %w: tensor<784x10x!ternary.trit>, %b: tensor<10xi32>, %t: tensor<10x15xi32>) {
  %y = ternary.linear %x, %w bias(%b : tensor<10xi32>) thresholds(%t : tensor<10x15xi32>)
      {activation = "relu"} : tensor<?x784xi8>, tensor<784x10x!ternary.trit> -> tensor<?x10xi8>
  func.return
}
// CHECK: %y = ternary.linear %x, %w bias(%b : tensor<10xi32>) thresholds(%t : tensor<10x15xi32>) {activation = "relu"} : tensor<?x784xi8>, tensor<784x10x!ternary.trit> -> tensor<?x10xi8>

func.func @f6(%x: tensor<?x784xi8>, %w: tensor<784x10x!ternary.trit>, %m: tensor<10xi32>, %r: tensor<i32>, %z: tensor<i8>) {
  %y = ternary.linear %x, %w multiplier(%m : tensor<10xi32>) shift(%r : tensor<i32>)
      zero_point(%z : tensor<i8>) {low = -128 : i64, high = 127 : i64} :
      tensor<?x784xi8>, tensor<784x10x!ternary.trit> -> tensor<?x10xi8>
  func.return
}
// CHECK: %y = ternary.linear %x, %w multiplier(%m : tensor<10xi32>) shift(%r : tensor<i32>) zero_point(%z : tensor<i8>) {low = -128 : i64, high = 127 : i64} : tensor<?x784xi8>, tensor<784x10x!ternary.trit> -> tensor<?x10xi8>

func.func @f7(%x: tensor<?x784xf32>, %w: tensor<784x10x!ternary.trit>) {
  %y = ternary.linear %x, %w {sparsity = #ternary.sparsity<2 : i64, array<i64: 0>,
      array<i64>, array<i64: 4, 256>, "0">} : tensor<?x784xf32>,
      tensor<784x10x!ternary.trit> -> tensor<?x10xf32>
  func.return
}
// CHECK: %y = ternary.linear %x, %w {sparsity = #ternary.sparsity<2 : i64, array<i64: 0>, array<i64>, array<i64: 4, 256>, "0">} : tensor<?x784xf32>, tensor<784x10x!ternary.trit> -> tensor<?x10xf32>

func.func @f8(%x: tensor<?x3x32x32xf32>, %w: tensor<8x3x3x3x!ternary.trit>) {
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<?x3x32x32xf32>,
      tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xf32>
  func.return
}
// CHECK: %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<?x3x32x32xf32>, tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xf32>

func.func @f9(%x: tensor<?x6x32x32xf32>, %w: tensor<8x3x3x3x!ternary.trit>, %s: tensor<8xf32>, %b: tensor<8xf32>) {
  %y = ternary.conv %x, %w scale(%s : tensor<8xf32>) bias(%b : tensor<8xf32>) {strides =
      array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation =
      array<i64: 1, 1>, groups = 2 : i64, activation = "relu"} : tensor<?x6x32x32xf32>,
      tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xf32>
  func.return
}
// CHECK: %y = ternary.conv %x, %w scale(%s : tensor<8xf32>) bias(%b : tensor<8xf32>) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>, groups = 2 : i64, activation = "relu"} : tensor<?x6x32x32xf32>, tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xf32>

func.func @f10(%x: tensor<?x3x32x32xi8>, %w: tensor<8x3x3x3x!ternary.trit>, %t: tensor<1x15xi32>) {
  %y = ternary.conv %x, %w thresholds(%t : tensor<1x15xi32>) {strides =
      array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} :
      tensor<?x3x32x32xi8>, tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xi8>
  func.return
}
// CHECK: %y = ternary.conv %x, %w thresholds(%t : tensor<1x15xi32>) {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation = array<i64: 1, 1>} : tensor<?x3x32x32xi8>, tensor<8x3x3x3x!ternary.trit> -> tensor<?x8x32x32xi8>

func.func @f11(%x: tensor<?x3x32xi8>, %w: tensor<8x3x2x!ternary.trit>) {
  %y = ternary.conv %x, %w {strides = array<i64: 2>, padding =
      array<i64: 0, 0>, dilation = array<i64: 1>} : tensor<?x3x32xi8>,
      tensor<8x3x2x!ternary.trit> -> tensor<?x8x16xi32>
  func.return
}
// CHECK: %y = ternary.conv %x, %w {strides = array<i64: 2>, padding = array<i64: 0, 0>, dilation = array<i64: 1>} : tensor<?x3x32xi8>, tensor<8x3x2x!ternary.trit> -> tensor<?x8x16xi32>

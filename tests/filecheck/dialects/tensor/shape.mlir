// RUN: triton-opt %s | triton-opt | filecheck %s
// RUN: triton-opt %s --print-op-generic | triton-opt | filecheck %s
// Every op of this family parses, prints and parses again, in both formats.

func.func @f0(%x: tensor<?x8xf32>) {
  %y = tensor.reshape_to %x {shape = array<i64: -2, 2, 4>} : (tensor<?x8xf32>) ->
      tensor<?x2x4xf32>
  func.return
}
// CHECK: %y = tensor.reshape_to %x {shape = array<i64: -2, 2, 4>} : (tensor<?x8xf32>) -> tensor<?x2x4xf32>

func.func @f1(%x: tensor<2x4x6xf32>) {
  %y = tensor.reshape_to %x {shape = array<i64: -1, 4>} : (tensor<2x4x6xf32>) ->
      tensor<12x4xf32>
  func.return
}
// CHECK: %y = tensor.reshape_to %x {shape = array<i64: -1, 4>} : (tensor<2x4x6xf32>) -> tensor<12x4xf32>

func.func @f2(%x: tensor<1xf32>) {
  %y = tensor.reshape_to %x {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>
  func.return
}
// CHECK: %y = tensor.reshape_to %x {shape = array<i64>} : (tensor<1xf32>) -> tensor<f32>

func.func @f3(%x: tensor<?x2x4xf32>) {
  %y = tensor.flatten %x : (tensor<?x2x4xf32>) -> tensor<?x8xf32>
  func.return
}
// CHECK: %y = tensor.flatten %x : (tensor<?x2x4xf32>) -> tensor<?x8xf32>

func.func @f4(%x: tensor<?x2x4xf32>) {
  %y = tensor.flatten %x {start = 0 : i64, end = 1 : i64} : (tensor<?x2x4xf32>) ->
      tensor<?x4xf32>
  func.return
}
// CHECK: %y = tensor.flatten %x {start = 0 : i64, end = 1 : i64} : (tensor<?x2x4xf32>) -> tensor<?x4xf32>

func.func @unflatten(%x: tensor<?x8xf32>, %like: tensor<?x?x4xi1>) {
  %y = tensor.unflatten %x, %like : (tensor<?x8xf32>, tensor<?x?x4xi1>) -> tensor<?x?x8xf32>
  func.return
}
// CHECK: %y = tensor.unflatten %x, %like : (tensor<?x8xf32>, tensor<?x?x4xi1>) -> tensor<?x?x8xf32>

func.func @f5(%x: tensor<?x2x4xi8>) {
  %y = tensor.permute %x {perm = array<i64: 2, 0, 1>} : (tensor<?x2x4xi8>) -> tensor<4x?x2xi8>
  func.return
}
// CHECK: %y = tensor.permute %x {perm = array<i64: 2, 0, 1>} : (tensor<?x2x4xi8>) -> tensor<4x?x2xi8>

func.func @f6(%x: tensor<2x4xf32>, %y: tensor<2x3xf32>) {
  %z = tensor.concatenate %x, %y {axis = -1 : i64} : (tensor<2x4xf32>, tensor<2x3xf32>)
      -> tensor<2x7xf32>
  func.return
}
// CHECK: %z = tensor.concatenate %x, %y {axis = -1 : i64} : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x7xf32>

func.func @f7(%x: tensor<?x4xf32>, %y: tensor<2x?xf32>) {
  %z = tensor.concatenate %x, %y {axis = 0 : i64} : (tensor<?x4xf32>, tensor<2x?xf32>)
      -> tensor<?x4xf32>
  func.return
}
// CHECK: %z = tensor.concatenate %x, %y {axis = 0 : i64} : (tensor<?x4xf32>, tensor<2x?xf32>) -> tensor<?x4xf32>

func.func @f8(%x: tensor<2x!ternary.trit>) {
  %z = tensor.concatenate %x {axis = 0 : i64} : (tensor<2x!ternary.trit>) ->
      tensor<2x!ternary.trit>
  func.return
}
// CHECK: %z = tensor.concatenate %x {axis = 0 : i64} : (tensor<2x!ternary.trit>) -> tensor<2x!ternary.trit>

func.func @f9(%x: tensor<5x4xf32>) {
  %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 2, 3>} : (tensor<5x4xf32>)
      -> (tensor<2x4xf32>, tensor<3x4xf32>)
  func.return
}
// CHECK: %a, %b = tensor.split %x {axis = 0 : i64, sizes = array<i64: 2, 3>} : (tensor<5x4xf32>) -> (tensor<2x4xf32>, tensor<3x4xf32>)

func.func @f10(%x: tensor<?x4xf32>) {
  %a = tensor.split %x {axis = 0 : i64, sizes = array<i64: 5>} : (tensor<?x4xf32>) ->
      tensor<5x4xf32>
  func.return
}
// CHECK: %a = tensor.split %x {axis = 0 : i64, sizes = array<i64: 5>} : (tensor<?x4xf32>) -> tensor<5x4xf32>

func.func @f11(%x: tensor<3x4xf32>) {
  %y = tensor.slice %x {starts = array<i64: 0, -2>, ends =
      array<i64: 9223372036854775807, -1>, steps = array<i64: 2, 1>} : (tensor<3x4xf32>)
      -> tensor<2x1xf32>
  func.return
}
// CHECK: %y = tensor.slice %x {starts = array<i64: 0, -2>, ends = array<i64: 9223372036854775807, -1>, steps = array<i64: 2, 1>} : (tensor<3x4xf32>) -> tensor<2x1xf32>

func.func @f12(%x: tensor<?xf32>) {
  %y = tensor.slice %x {starts = array<i64: 1>, ends = array<i64: 3>, steps = array<i64: 1>}
      : (tensor<?xf32>) -> tensor<?xf32>
  func.return
}
// CHECK: %y = tensor.slice %x {starts = array<i64: 1>, ends = array<i64: 3>, steps = array<i64: 1>} : (tensor<?xf32>) -> tensor<?xf32>

func.func @f13(%x: tensor<?x4xf32>) {
  %y = tensor.pad_to %x {low = array<i64: 0, 1>, high = array<i64: 0, 2>}
      : (tensor<?x4xf32>) -> tensor<?x7xf32>
  func.return
}
// CHECK: %y = tensor.pad_to %x {low = array<i64: 0, 1>, high = array<i64: 0, 2>} : (tensor<?x4xf32>) -> tensor<?x7xf32>

func.func @f14(%x: tensor<4xf32>) {
  %y = tensor.pad_to %x {low = array<i64: 1>, high = array<i64: 0>, value = -1.5 : f64}
      : (tensor<4xf32>) -> tensor<5xf32>
  func.return
}
// CHECK: %y = tensor.pad_to %x {low = array<i64: 1>, high = array<i64: 0>, value = -1.500000e+00 : f64} : (tensor<4xf32>) -> tensor<5xf32>

func.func @f15(%x: tensor<1x4x1xf32>) {
  %y = tensor.squeeze %x {axes = array<i64: 0, -1>} : (tensor<1x4x1xf32>) -> tensor<4xf32>
  func.return
}
// CHECK: %y = tensor.squeeze %x {axes = array<i64: 0, -1>} : (tensor<1x4x1xf32>) -> tensor<4xf32>

func.func @f16(%x: tensor<?xf32>) {
  %y = tensor.unsqueeze %x {axes = array<i64: 0, -1>} : (tensor<?xf32>) -> tensor<1x?x1xf32>
  func.return
}
// CHECK: %y = tensor.unsqueeze %x {axes = array<i64: 0, -1>} : (tensor<?xf32>) -> tensor<1x?x1xf32>

func.func @f17(%x: tensor<1x?xf32>) {
  %y = tensor.expand %x {shape = array<i64: 3, 2, -1>} : (tensor<1x?xf32>) -> tensor<3x2x?xf32>
  func.return
}
// CHECK: %y = tensor.expand %x {shape = array<i64: 3, 2, -1>} : (tensor<1x?xf32>) -> tensor<3x2x?xf32>

func.func @f18(%t: tensor<100x8xf32>, %i: tensor<?x5xi64>) {
  %y = tensor.gather_rows %t, %i : (tensor<100x8xf32>, tensor<?x5xi64>) -> tensor<?x5x8xf32>
  func.return
}
// CHECK: %y = tensor.gather_rows %t, %i : (tensor<100x8xf32>, tensor<?x5xi64>) -> tensor<?x5x8xf32>

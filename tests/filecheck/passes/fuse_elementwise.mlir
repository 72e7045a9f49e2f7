// RUN: triton-opt %s -p convert-tensor-to-linalg,fuse-elementwise,dce --split-input-file | filecheck %s

// A chain becomes one loop, whose operands are broadcast.
func.func @chain(%x: tensor<?x8xf32>, %b: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = tensor.add %x, %b : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %1 = tensor.neg %0 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = tensor.exp %1 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %2 : tensor<?x8xf32>
}
// CHECK-LABEL: func.func @chain
// CHECK-COUNT-1: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-NEXT: ^bb0(
// CHECK-NEXT: arith.addf
// CHECK-NEXT: arith.negf
// CHECK-NEXT: math.exp
// CHECK-NEXT: linalg.yield
// CHECK-NOT: linalg.generic

// -----

// Into a sum, which reads each element once.
func.func @squares(%x: tensor<?x8xf32>) -> tensor<?xf32> {
  %0 = tensor.mul %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = tensor.reduce_sum %0 {axes = array<i64: 1>, keepdims = false} : (tensor<?x8xf32>) -> tensor<?xf32>
  func.return %1 : tensor<?xf32>
}
// CHECK-LABEL: func.func @squares
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction"]
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf
// CHECK-NOT: linalg.generic

// -----

// Not where elements would be computed again, and not where two read them.
func.func @kept(%x: tensor<?x1xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %0 = tensor.exp %x : (tensor<?x1xf32>) -> tensor<?x1xf32>
  %1 = tensor.add %0, %y : (tensor<?x1xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = tensor.neg %1 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %1, %2 : tensor<?x8xf32>, tensor<?x8xf32>
}
// CHECK-LABEL: func.func @kept
// CHECK-COUNT-3: linalg.generic
// CHECK-NOT: linalg.generic

// -----

// What only permutes is read where it comes from, the loops' counters included.
func.func @turned(%x: tensor<?x8xf32>) -> tensor<8x?xf32> {
  %0 = tensor.permute %x {perm = array<i64: 1, 0>} : (tensor<?x8xf32>) -> tensor<8x?xf32>
  %1 = tensor.relu %0 : (tensor<8x?xf32>) -> tensor<8x?xf32>
  func.return %1 : tensor<8x?xf32>
}
// CHECK-LABEL: func.func @turned
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK: arith.maximumf
// CHECK-NOT: linalg.generic

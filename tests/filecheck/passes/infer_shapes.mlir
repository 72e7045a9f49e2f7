// RUN: triton-opt %s -p infer-shapes --split-input-file | filecheck %s
// RUN: triton-opt %s -p 'infer-shapes{batch=4}' --split-input-file | filecheck %s --check-prefix=BATCH
// RUN: not triton-opt %s -p 'infer-shapes{batch=0}' --split-input-file 2>&1 | filecheck %s --check-prefix=ZERO

// What the operands know reaches the results, and the function's type follows.
func.func @forward(%x: tensor<?x3x8x8xf32>) -> tensor<?x?xf32> {
  %pooled = tensor.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>} : (tensor<?x3x8x8xf32>) -> tensor<?x?x?x?xf32>
  %flat = tensor.flatten %pooled : (tensor<?x?x?x?xf32>) -> tensor<?x?xf32>
  func.return %flat : tensor<?x?xf32>
}
// CHECK-LABEL: func.func @forward(%x: tensor<?x3x8x8xf32>) -> tensor<?x48xf32>
// CHECK-NEXT: %pooled = tensor.max_pool %x {{.*}} -> tensor<?x3x4x4xf32>
// CHECK-NEXT: %flat = tensor.flatten %pooled : (tensor<?x3x4x4xf32>) -> tensor<?x48xf32>
// CHECK-NEXT: func.return %flat : tensor<?x48xf32>

// BATCH-LABEL: func.func @forward(%x: tensor<4x3x8x8xf32>) -> tensor<4x48xf32>
// BATCH: tensor<4x3x4x4xf32>

// ZERO-NOT: Traceback
// ZERO: infer-shapes expects a batch of at least 1, got 0

// -----

// A size that only the declared type knows stays; an argument of fixed size is no batch.
func.func @kept(%x: tensor<?x?xf32>, %y: tensor<7xf32>) -> (tensor<?x?xf32>, tensor<7xf32>) {
  %a = tensor.relu %x : (tensor<?x?xf32>) -> tensor<?x5xf32>
  %b = tensor.neg %a : (tensor<?x5xf32>) -> tensor<?x?xf32>
  %c = tensor.neg %y : (tensor<7xf32>) -> tensor<7xf32>
  func.return %b, %c : tensor<?x?xf32>, tensor<7xf32>
}
// CHECK-LABEL: func.func @kept(%x: tensor<?x?xf32>, %y: tensor<7xf32>) -> (tensor<?x5xf32>, tensor<7xf32>)
// CHECK: tensor.relu %x : (tensor<?x?xf32>) -> tensor<?x5xf32>
// CHECK: tensor.neg {{.*}} -> tensor<?x5xf32>
// BATCH-LABEL: func.func @kept(%x: tensor<4x?xf32>, %y: tensor<7xf32>) -> (tensor<4x5xf32>, tensor<7xf32>)

// -----

// A window of unknown size leaves the size of the result unknown.
func.func @window(%x: tensor<1x1x5x5xf32>, %w: tensor<1x1x?x3xf32>) -> tensor<1x1x?x?xf32> {
  %y = tensor.conv %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>,
       dilation = array<i64: 1, 1>} : (tensor<1x1x5x5xf32>, tensor<1x1x?x3xf32>) -> tensor<1x1x?x?xf32>
  func.return %y : tensor<1x1x?x?xf32>
}
// CHECK-LABEL: func.func @window(%x: tensor<1x1x5x5xf32>, %w: tensor<1x1x?x3xf32>) -> tensor<1x1x?x3xf32>

// RUN: triton-opt %s -p 'convert-tensor-to-linalg{keep=ternary},fuse-elementwise,dce,convert-ternary-to-llvm{recipe=generic}' --split-input-file | filecheck %s
// RUN: triton-opt %s -p 'convert-tensor-to-linalg{keep=ternary}' --split-input-file | filecheck %s --check-prefix=KEPT
// RUN: triton-opt %s -p 'convert-tensor-to-linalg{keep=products}' --split-input-file | filecheck %s --check-prefix=BARE

// Element-wise loops run in vectors; what is left goes one by one.
func.func @forward(%x: tensor<?x8xf32> {tensor.name = "x"}) -> tensor<?x8xf32> {
  %0 = tensor.add %x, %x : (tensor<?x8xf32>, tensor<?x8xf32>) -> tensor<?x8xf32>
  %1 = tensor.relu %0 : (tensor<?x8xf32>) -> tensor<?x8xf32>
  func.return %1 : tensor<?x8xf32>
}
// CHECK: native.interface = "{{.*}}outputs{{.*}}float32{{.*\[\[\[1,0\]\],\[\[8\]\]\].*}}generic
// CHECK: llvm.func internal @loops_0(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {llvm.noalias}, %{{.*}}: i64) {
// CHECK: llvm.load %{{.*}} {alignment = 1 : i64} : !llvm.ptr -> vector<4xf32>
// CHECK-NEXT: llvm.fadd {{.*}} : vector<4xf32>
// CHECK-NEXT: llvm.call_intrinsic "llvm.maximum.v4f32"
// CHECK-NEXT: llvm.store
// CHECK: llvm.func @forward(%{{.*}}: !llvm.ptr {tensor.name = "x"}, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr {tensor.parameter = "forward.constants"}, %{{.*}}: !llvm.ptr, %{{.*}}: i64) {
// CHECK-NEXT: llvm.call @loops_0
// CHECK-NEXT: llvm.return
// CHECK: llvm.func @forward_workspace_bytes(%{{.*}}: i64) -> i64 {

// -----

// A product with trits that are known is a call of a kernel, with all that is fused into it.
func.func @forward(%x: tensor<?x8xi8>) -> tensor<?x2xi8> {
  %w = ternary.constant [1, 0, 0, -1, 1, 1, 0, 0, -1, 0, 0, 1, 1, 0, 0, 1] : tensor<8x2x!ternary.trit>
  %t = tensor.constant dense<[[1, 3, 5]]> : tensor<1x3xi32>
  %y = ternary.linear %x, %w thresholds(%t : tensor<1x3xi32>) : tensor<?x8xi8>, tensor<8x2x!ternary.trit> -> tensor<?x2xi8>
  func.return %y : tensor<?x2xi8>
}
// KEPT-LABEL: func.func @forward(%x: tensor<?x8xi8>)
// KEPT: ternary.constant
// KEPT: tensor.constant
// BARE: ternary.linear %x, %w : tensor<?x8xi8>
// BARE: linalg.generic
// KEPT: ternary.linear %x, %w thresholds
// CHECK: llvm.func @finish_i8_0
// CHECK: llvm.func @forward(
// CHECK: llvm.call @linear_i8_0

// -----

// A reshape and a permutation cost nothing; a product of them reads where they point.
func.func @forward(%x: tensor<2x12xf32>, %y: tensor<2x3x4xf32>) -> tensor<2x3x3xf32> {
  %0 = tensor.reshape_to %x {shape = array<i64: 2, 3, 4>} : (tensor<2x12xf32>) -> tensor<2x3x4xf32>
  %1 = tensor.permute %y {perm = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %2 = tensor.matmul %0, %1 : (tensor<2x3x4xf32>, tensor<2x4x3xf32>) -> tensor<2x3x3xf32>
  func.return %2 : tensor<2x3x3xf32>
}
// CHECK-COUNT-1: llvm.func internal
// CHECK: fastmathFlags = #llvm.fastmath<contract>
// CHECK: llvm.func @forward(
// CHECK-NEXT: llvm.call @loops_0(%
// CHECK-NEXT: llvm.return

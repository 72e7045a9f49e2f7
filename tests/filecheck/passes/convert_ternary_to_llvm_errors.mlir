// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{keep=ternary},convert-ternary-to-llvm' 2>&1 | filecheck %s
// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{keep=all}' 2>&1 | filecheck %s --check-prefix=KEEP
// RUN: not triton-opt %s -p 'convert-ternary-to-llvm{precision=half}' 2>&1 | filecheck %s --check-prefix=PRECISION
// RUN: not triton-opt %s -p 'convert-ternary-to-llvm' 2>&1 | filecheck %s --check-prefix=EARLY

func.func @forward(%x: tensor<?x?x4xf32>) -> (tensor<?x?x4xf32>, tensor<?x?x4xf32>) {
  %p = tensor.pad_to %x {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, 0>, value = 0.0 : f64} : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %a = tensor.add %x, %p : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %q = tensor.pad_to %x {low = array<i64: 2, 0, 0>, high = array<i64: 0, 0, 0>, value = 0.0 : f64} : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %b = tensor.mul %q, %x : (tensor<?x?x4xf32>, tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  func.return %a, %b : tensor<?x?x4xf32>, tensor<?x?x4xf32>
}

// CHECK: linalg.generic at {{.*}}errors.mlir:8:3: sizes size1 and size1 + 1 meet on one axis
// CHECK: linalg.generic at {{.*}}errors.mlir:10:3: sizes batch + 2 and batch meet on one axis
// KEEP: expects keep=none or keep=ternary or keep=rounded or keep=products, got 'all'
// PRECISION: expects precision=float32 or precision=dynamic-int8, got 'half'
// EARLY: tensor.pad_to at {{.*}}errors.mlir:7:3: has no form in memory

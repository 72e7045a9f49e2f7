// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{keep=ternary},convert-ternary-to-llvm' 2>&1 | filecheck %s
// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{keep=all}' 2>&1 | filecheck %s --check-prefix=KEEP
// RUN: not triton-opt %s -p 'convert-ternary-to-llvm{precision=half}' 2>&1 | filecheck %s --check-prefix=PRECISION
// RUN: not triton-opt %s -p 'convert-ternary-to-llvm' 2>&1 | filecheck %s --check-prefix=EARLY

func.func @forward(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %y = tensor.slice %x {starts = array<i64: 3, 0, 0>, ends = array<i64: 9, 9, 4>, steps = array<i64: 1, 1, 1>} : (tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  func.return %y : tensor<?x?x4xf32>
}

// CHECK: func.func at {{.*}}errors.mlir:6:1: has several free sizes (the first axis, axis 1 of argument 0), and only one, the batch, can stay free; give the others with 'infer-shapes{timesteps=… batch=…}'
// CHECK: arith.minsi at {{.*}}errors.mlir:7:3: the sizes 3 and batch do not give one that follows from the batch; run 'infer-shapes{batch=…}' first
// KEEP: expects keep=none or keep=ternary or keep=rounded or keep=products, got 'all'
// PRECISION: expects precision=float32 or precision=dynamic-int8, got 'half'
// EARLY: tensor.slice at {{.*}}errors.mlir:7:3: has no form in memory

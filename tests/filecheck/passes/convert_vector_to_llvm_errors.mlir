// RUN: not triton-opt %s -p convert-vector-to-llvm 2>&1 | filecheck %s

func.func @f(%m: memref<4xf32>, %i: index, %v: vector<4xf32>, %w: vector<2xf32>) {
  %a = vector.load %m[%i] : memref<4xf32>, vector<4xf32>
  %b = vector.broadcast %v : vector<4xf32> to vector<3x4xf32>
  %c = vector.reduction <minsi>, %w : vector<2xf32> into f32
  func.return
}

// CHECK: target 'llvm' cannot express 3 operation(s):
// CHECK-NEXT: vector.load at {{.*}}errors.mlir:4:3: memref<4xf32> has no counterpart in the llvm dialect
// CHECK-NEXT: vector.broadcast at {{.*}}errors.mlir:5:3: vector<3x4xf32> has no counterpart in the llvm dialect
// CHECK-NEXT: vector.reduction at {{.*}}errors.mlir:6:3: <minsi> is no reduction of f32

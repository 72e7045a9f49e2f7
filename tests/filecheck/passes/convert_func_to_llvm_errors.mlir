// RUN: not triton-opt %s -p convert-func-to-llvm 2>&1 | filecheck %s

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32>

func.func @g(%x: memref<4xf32>, %i: ui8) {
  %t = tensor.constant dense<0.0> : tensor<4xf32>
  %y = tensor.relu %t : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// CHECK: target 'llvm' cannot express 4 operation(s):
// CHECK-NEXT: func.func at {{.*}}errors.mlir:3:1: tensor<4xf32> has no counterpart in the llvm dialect
// CHECK-NEXT: func.func at {{.*}}errors.mlir:5:1: memref<4xf32>, ui8 has no counterpart in the llvm dialect
// CHECK-NEXT: tensor.constant at
// CHECK-NEXT: tensor.relu at

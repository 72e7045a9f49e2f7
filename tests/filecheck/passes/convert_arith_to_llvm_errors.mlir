// RUN: not triton-opt %s -p convert-arith-to-llvm 2>&1 | filecheck %s

func.func @f(%x: tensor<4xf32>, %y: vector<2x2xi32>, %z: i128) {
  %a = arith.addf %x, %x : tensor<4xf32>
  %b = arith.addi %y, %y : vector<2x2xi32>
  %c = arith.sitofp %z : i128 to f32
  func.return
}

// CHECK: target 'llvm' cannot express 3 operation(s):
// CHECK-NEXT: arith.addf at {{.*}}errors.mlir:4:3: tensor<4xf32> has no counterpart in the llvm dialect
// CHECK-NEXT: arith.addi at {{.*}}errors.mlir:5:3: vector<2x2xi32> has no counterpart in the llvm dialect
// CHECK-NEXT: arith.sitofp at {{.*}}errors.mlir:6:3: integers of more than 64 bits do not become floats, nor floats such integers

// REQUIRES: mlir-opt
// RUN: triton-opt %s | mlir-opt | filecheck %s
// RUN: triton-opt %s -p canonicalize,cse,dce | mlir-opt | filecheck %s --check-prefix=OPTIMISED

// What we print is MLIR: LLVM's own tool reads it.
func.func @affine(%x: tensor<4xf32>) -> tensor<4xf32> {
  %scale = arith.constant dense<2.0> : tensor<4xf32>
  %same = arith.constant dense<2.0> : tensor<4xf32>
  %product = arith.mulf %x, %scale : tensor<4xf32>
  %sum = arith.addf %product, %same : tensor<4xf32>
  func.return %sum : tensor<4xf32>
}

// CHECK-LABEL: func.func @affine
// CHECK-COUNT-2: arith.constant dense<2.000000e+00>
// CHECK: return %{{.*}} : tensor<4xf32>

// OPTIMISED: %[[C:.*]] = arith.constant dense<2.000000e+00>
// OPTIMISED-NOT: arith.constant
// OPTIMISED: arith.mulf %{{.*}}, %[[C]]
// OPTIMISED-NEXT: arith.addf %{{.*}}, %[[C]]

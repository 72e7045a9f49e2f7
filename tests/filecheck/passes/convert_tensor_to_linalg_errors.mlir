// RUN: not triton-opt %s -p convert-tensor-to-linalg 2>&1 | filecheck %s
// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{parameters=globals}' 2>&1 | filecheck %s --check-prefix=CHOICE
// RUN: not triton-opt %s -p 'convert-tensor-to-linalg{parameters=constants}' 2>&1 | filecheck %s --check-prefix=CONSTANTS

func.func @inner(%x: tensor<4xf32>) -> tensor<4xf32> {
  %w = tensor.parameter "w" : tensor<4xf32>
  %t = ternary.ternarize %w {mode = "stochastic", seed = 1 : i64} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  %y = tensor.add %x, %w : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

func.func @outer(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @inner(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// CHECK: cannot express 2 operation(s)
// CHECK-NEXT: ternary.ternarize at {{.*}}errors.mlir:7:3: stochastic trits are drawn by NumPy; run 'fold-constants' first
// CHECK-NEXT: func.call at {{.*}}errors.mlir:13:3: calls a function with parameters; inline it first

// CHOICE: expects parameters=arguments or parameters=constants, got 'globals'

// CONSTANTS: cannot express 1 operation(s)

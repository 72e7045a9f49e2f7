// RUN: triton-opt %s -p 'convert-tensor-to-linalg{parameters=constants}' --split-input-file | filecheck %s

func.func @constants(%x: tensor<?x2xi8>) -> (tensor<?x2xi32>, tensor<2xi1>) {
  %w = ternary.constant [1, 0, -1, 1] : tensor<2x2x!ternary.trit>
  %t = tensor.constant dense<[true, false]> : tensor<2xi1>
  %y = ternary.matmul %x, %w : tensor<?x2xi8>, tensor<2x2x!ternary.trit> -> tensor<?x2xi32>
  func.return %y, %t : tensor<?x2xi32>, tensor<2xi1>
}
// CHECK: func.func @constants(%x: tensor<?x2xi8>)
// CHECK: arith.constant dense<{{\[\[}}1, 0], [-1, 1]]> : tensor<2x2xi8>
// CHECK: arith.constant dense<[true, false]> : tensor<2xi1>

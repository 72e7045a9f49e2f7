// RUN: triton-opt %s -p 'infer-shapes{batch=4}' --split-input-file --verify-diagnostics

func.func @contradiction(%x: tensor<?x8xf32>) -> tensor<2x8xf32> {
  // expected-error @+1 {{result 0 has type tensor<2x8xf32>, but tensor<4x8xf32> follows}}
  %y = tensor.relu %x : (tensor<?x8xf32>) -> tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// -----

func.func @misfit(%x: tensor<?x8xf32>, %y: tensor<3x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{cannot broadcast shapes 4x8 and 3x8 together}}
  %z = tensor.add %x, %y : (tensor<?x8xf32>, tensor<3x8xf32>) -> tensor<?x8xf32>
  func.return %z : tensor<?x8xf32>
}

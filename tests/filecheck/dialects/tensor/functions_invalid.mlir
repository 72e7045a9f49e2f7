// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of functions of one number refuses, and what it says.

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.sin' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.sin %x : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.is_nan' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.is_nan %x : (tensor<4xi32>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.is_inf' result 0 has type tensor<4xf32>, expected tensor<4xi1>}}
  %y = tensor.is_inf %x : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

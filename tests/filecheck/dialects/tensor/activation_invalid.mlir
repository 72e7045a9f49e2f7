// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<4xi1>) {
  // expected-error @+1 {{'tensor.relu' expects numbers, got tensor<4xi1>}}
  %y = tensor.relu %x : (tensor<4xi1>) -> tensor<4xi1>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'tensor.sigmoid' expects floating-point elements, got tensor<4xi8>}}
  %y = tensor.sigmoid %x : (tensor<4xi8>) -> tensor<4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.gelu' expects approximate 'exact' or 'tanh', got 'fast'}}
  %y = tensor.gelu %x {approximate = "fast"} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.leaky_relu' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.leaky_relu %x : (tensor<4xi32>) -> tensor<4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{'tensor.softmax' expects axis in [-2, 2), got 2}}
  %y = tensor.softmax %x {axis = 2 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x2xf32>) {
  // expected-error @+1 {{'tensor.log_softmax' expects axis in [-2, 2), got -3}}
  %y = tensor.log_softmax %x {axis = -3 : i64} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  func.return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{'tensor.softmax' expects axis in [0, 0), got -1}}
  %y = tensor.softmax %x : (tensor<f32>) -> tensor<f32>
  func.return
}

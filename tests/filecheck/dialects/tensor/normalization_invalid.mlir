// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.batch_norm' expects an input of rank 2 or more, got tensor<8xf32>}}
  %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.batch_norm' expects floating-point elements, got tensor<2x8xi8>}}
  %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<2x8xi8>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<7xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.batch_norm' expects mean of 8 elements, got tensor<7xf32>}}
  %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<7xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf64>) {
  // expected-error @+1 {{'tensor.batch_norm' expects equal element types, got tensor<2x8xf32> and tensor<8xf64>}}
  %y = tensor.batch_norm %x, %s, %b, %m, %v : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf64>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>, %m: tensor<8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.batch_norm' expects epsilon of at least 0, got -1.0}}
  %y = tensor.batch_norm %x, %s, %b, %m, %v {epsilon = -1.0 : f64} : (tensor<2x8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<7xf32>) {
  // expected-error @+1 {{'tensor.layer_norm' expects scale shaped as the last axes of tensor<2x8xf32>, got tensor<7xf32>}}
  %y = tensor.layer_norm %x, %s : tensor<2x8xf32>, tensor<7xf32> -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %b: tensor<f32>) {
  // expected-error @+1 {{'tensor.layer_norm' expects bias shaped as the last axes of tensor<2x8xf32>, got tensor<f32>}}
  %y = tensor.layer_norm %x, %s bias(%b : tensor<f32>) : tensor<2x8xf32>, tensor<8xf32>
      -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8xf32>, %s: tensor<2x8xf32>) {
  // expected-error @+1 {{'tensor.rms_norm' expects scale shaped as the last axes of tensor<8xf32>, got tensor<2x8xf32>}}
  %y = tensor.rms_norm %x, %s : (tensor<8xf32>, tensor<2x8xf32>) -> tensor<8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>) {
  // expected-error @+1 {{'tensor.rms_norm' expects epsilon of at least 0, got -0.5}}
  %y = tensor.rms_norm %x, %s {epsilon = -0.5 : f64} : (tensor<2x8xf32>, tensor<8xf32>)
      -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %s: tensor<8xi32>) {
  // expected-error @+1 {{'tensor.rms_norm' expects floating-point elements, got tensor<2x8xi32>}}
  %y = tensor.rms_norm %x, %s : (tensor<2x8xi32>, tensor<8xi32>) -> tensor<2x8xi32>
  func.return
}

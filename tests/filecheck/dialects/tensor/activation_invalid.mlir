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

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.celu' expects an alpha other than 0}}
  %y = tensor.celu %x {alpha = 0.0 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.elu' expects an alpha that is finite in f32, got 1e+39}}
  %y = tensor.elu %x {alpha = 1.0e+39 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'tensor.hard_sigmoid' expects a beta that is finite in f32, got 1e+39}}
  %y = tensor.hard_sigmoid %x {beta = 1.0e+39 : f64} : (tensor<4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %s: tensor<2x4xf32>) {
  // expected-error @+1 {{'tensor.prelu' expects a slope that broadcasts to tensor<4xf32>, got tensor<2x4xf32>}}
  %y = tensor.prelu %x, %s : (tensor<4xf32>, tensor<2x4xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tensor.prelu' expects floating-point elements, got tensor<4xi32>}}
  %y = tensor.prelu %x, %x : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  func.return
}

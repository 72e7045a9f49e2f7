// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f() {
  // expected-error @+1 {{'ternary.parameter' expects a name, got an empty string}}
  %w = ternary.parameter "" : tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f() {
  // expected-error @+1 {{'ternary.parameter' expects a static shape, got tensor<?x!ternary.trit>}}
  %w = ternary.parameter "w" : tensor<?x!ternary.trit>
  func.return
}

// -----

func.func @f() {
  // expected-error @+1 {{'ternary.constant' holds 3 trits for tensor<2x2x!ternary.trit>, expected all of them and at most 64}}
  %w = ternary.constant [1, 0, 1] : tensor<2x2x!ternary.trit>
  func.return
}

// -----

func.func @f() {
  // expected-error @+1 {{'ternary.constant' expects trits in {-1, 0, 1}, got 2}}
  %w = ternary.constant [1, 2] : tensor<2x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'ternary.ternarize' expects floating-point elements, got tensor<4xi8>}}
  %t = ternary.ternarize %x : (tensor<4xi8>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects rule one of fixed, twn, absmean, got 'best'}}
  %t = ternary.ternarize %x {rule = "best"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects scale one of none, tensor, channel, got 'row'}}
  %t = ternary.ternarize %x {scale = "row"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects mode one of deterministic, stochastic, got 'random'}}
  %t = ternary.ternarize %x {mode = "random"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects a threshold with the rule 'fixed', and only there}}
  %t = ternary.ternarize %x {rule = "fixed"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects a threshold with the rule 'fixed', and only there}}
  %t = ternary.ternarize %x {threshold = 0.5 : f64} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects a threshold of at least 0, got -0.5}}
  %t = ternary.ternarize %x {rule = "fixed", threshold = -0.5 : f64} : (tensor<4xf32>)
      -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects a seed with the mode 'stochastic', and only there}}
  %t = ternary.ternarize %x {mode = "stochastic"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects a seed of at least 0, got -1}}
  %t = ternary.ternarize %x {mode = "stochastic", seed = -1 : i64} : (tensor<4xf32>) ->
      tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' has 1 results, expected 2}}
  %t = ternary.ternarize %x {scale = "tensor"} : (tensor<4xf32>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' expects axis in [-1, 1), got 1}}
  %t, %s = ternary.ternarize %x {scale = "channel", axis = 1 : i64} : (tensor<4xf32>)
      -> (tensor<4x!ternary.trit>, tensor<4xf32>)
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.ternarize' result 1 has type tensor<f32>, expected tensor<4xf32>}}
  %t, %s = ternary.ternarize %x {scale = "channel"} : (tensor<4xf32>)
      -> (tensor<4x!ternary.trit>, tensor<f32>)
  func.return
}

// -----

func.func @f(%t: tensor<4xi8>) {
  // expected-error @+1 {{'ternary.pack' expects trits as operand, got tensor<4xi8>}}
  %b = ternary.pack %t : (tensor<4xi8>) -> tensor<1xui8>
  func.return
}

// -----

func.func @f(%t: tensor<?x!ternary.trit>) {
  // expected-error @+1 {{'ternary.pack' expects a static shape}}
  %b = ternary.pack %t : (tensor<?x!ternary.trit>) -> tensor<1xui8>
  func.return
}

// -----

func.func @f(%t: tensor<5x!ternary.trit>) {
  // expected-error @+1 {{'ternary.pack' result 0 has type tensor<1xui8>, expected tensor<2xui8>}}
  %b = ternary.pack %t : (tensor<5x!ternary.trit>) -> tensor<1xui8>
  func.return
}

// -----

func.func @f(%b: tensor<1xi8>) {
  // expected-error @+1 {{'ternary.unpack' expects a vector of ui8, got tensor<1xi8>}}
  %t = ternary.unpack %b : (tensor<1xi8>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%b: tensor<2xui8>) {
  // expected-error @+1 {{'ternary.unpack' expects equal byte counts, got 2 and 1}}
  %t = ternary.unpack %b : (tensor<2xui8>) -> tensor<4x!ternary.trit>
  func.return
}

// -----

func.func @f(%t: tensor<4xi8>) {
  // expected-error @+1 {{'ternary.dequantize' expects trits as operand, got tensor<4xi8>}}
  %x = ternary.dequantize %t : (tensor<4xi8>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%t: tensor<8x4x!ternary.trit>, %s: tensor<4xi8>) {
  // expected-error @+1 {{'ternary.dequantize' expects a scale of floats, scalar or vector, got tensor<4xi8>}}
  %x = ternary.dequantize %t, %s : (tensor<8x4x!ternary.trit>, tensor<4xi8>) -> tensor<8x4xi8>
  func.return
}

// -----

func.func @f(%t: tensor<8x4x!ternary.trit>, %s: tensor<5xf32>) {
  // expected-error @+1 {{'ternary.dequantize' expects equal channels and scale elements, got 4 and 5}}
  %x = ternary.dequantize %t, %s : (tensor<8x4x!ternary.trit>, tensor<5xf32>) -> tensor<8x4xf32>
  func.return
}

// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<2x8xf64>, %s: tensor<f32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.quantize' expects f32 input and scale, got tensor<2x8xf64> and tensor<f32>}}
  %q = tensor.quantize %x, %s, %z : (tensor<2x8xf64>, tensor<f32>, tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<7xf32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.quantize' expects equal channels and scale elements, got 8 and 7}}
  %q = tensor.quantize %x, %s, %z : (tensor<2x8xf32>, tensor<7xf32>, tensor<i8>) ->
      tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<1x8xi8>) {
  // expected-error @+1 {{'tensor.quantize' expects zero point as a scalar or a vector, got tensor<1x8xi8>}}
  %q = tensor.quantize %x, %s, %z : (tensor<2x8xf32>, tensor<f32>, tensor<1x8xi8>) ->
      tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.quantize' expects axis in [-2, 2), got 2}}
  %q = tensor.quantize %x, %s, %z {axis = 2 : i64} : (tensor<2x8xf32>, tensor<8xf32>,
      tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<f32>) {
  // expected-error @+1 {{'tensor.quantize' expects integer elements of at most 32 bits, got tensor<f32>}}
  %q = tensor.quantize %x, %s, %z : (tensor<2x8xf32>, tensor<f32>, tensor<f32>) ->
      tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.quantize' expects -128 <= low <= high <= 127, got -128 and 255}}
  %q = tensor.quantize %x, %s, %z {high = 255 : i64} : (tensor<2x8xf32>, tensor<f32>,
      tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%q: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<f32>) {
  // expected-error @+1 {{'tensor.dequantize' expects integer elements of at most 32 bits, got tensor<2x8xf32>}}
  %x = tensor.dequantize %q, %s, %z : (tensor<2x8xf32>, tensor<f32>, tensor<f32>) ->
      tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<2x8xi8>, %s: tensor<f16>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.dequantize' expects an f32 scale, got tensor<f16>}}
  %x = tensor.dequantize %q, %s, %z : (tensor<2x8xi8>, tensor<f16>, tensor<i8>) ->
      tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%q: tensor<2x8xi8>, %s: tensor<f32>, %z: tensor<i32>) {
  // expected-error @+1 {{'tensor.dequantize' expects equal element types, got tensor<2x8xi8> and tensor<i32>}}
  %x = tensor.dequantize %q, %s, %z : (tensor<2x8xi8>, tensor<f32>, tensor<i32>) ->
      tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.requantize' expects an i32 input, got tensor<2x8xi8>}}
  %q = tensor.requantize %x, %m, %s, %z : (tensor<2x8xi8>, tensor<i32>, tensor<i32>,
      tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %m: tensor<i64>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.requantize' expects an i32 multiplier, got tensor<i64>}}
  %q = tensor.requantize %x, %m, %s, %z : (tensor<2x8xi32>, tensor<i64>, tensor<i32>,
      tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %m: tensor<i32>, %s: tensor<3xi32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.requantize' expects equal channels and shift elements, got 8 and 3}}
  %q = tensor.requantize %x, %m, %s, %z : (tensor<2x8xi32>, tensor<i32>, tensor<3xi32>,
      tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<8xi8>) {
  // expected-error @+1 {{'tensor.requantize' expects a scalar zero point, got tensor<8xi8>}}
  %q = tensor.requantize %x, %m, %s, %z : (tensor<2x8xi32>, tensor<i32>, tensor<i32>,
      tensor<8xi8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'tensor.requantize' expects -128 <= low <= high <= 127, got 5 and 4}}
  %q = tensor.requantize %x, %m, %s, %z {low = 5 : i64, high = 4 : i64}
      : (tensor<2x8xi32>, tensor<i32>, tensor<i32>, tensor<i8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %t: tensor<8x3xi8>) {
  // expected-error @+1 {{'tensor.multi_threshold' expects equal element types, got tensor<2x8xi32> and tensor<8x3xi8>}}
  %y = tensor.multi_threshold %x, %t : (tensor<2x8xi32>, tensor<8x3xi8>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %t: tensor<8xi32>) {
  // expected-error @+1 {{'tensor.multi_threshold' expects thresholds of shape [channels, count], got tensor<8xi32>}}
  %y = tensor.multi_threshold %x, %t : (tensor<2x8xi32>, tensor<8xi32>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %t: tensor<7x3xi32>) {
  // expected-error @+1 {{'tensor.multi_threshold' expects equal channels and rows of thresholds, got 8 and 7}}
  %y = tensor.multi_threshold %x, %t : (tensor<2x8xi32>, tensor<7x3xi32>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi32>, %t: tensor<1x200xi32>) {
  // expected-error @+1 {{'tensor.multi_threshold' result 0 has type tensor<2x8xi8>, expected tensor<2x8xi32>}}
  %y = tensor.multi_threshold %x, %t : (tensor<2x8xi32>, tensor<1x200xi32>) -> tensor<2x8xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<i64>) {
  // expected-error @+1 {{'tensor.quantize' expects integer elements of at most 32 bits, got tensor<i64>}}
  %y = tensor.quantize %x, %s, %z {low = -8 : i64, high = 7 : i64} : (tensor<2x8xf32>, tensor<f32>, tensor<i64>) -> tensor<2x8xi64>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi64>, %s: tensor<f32>, %z: tensor<i64>) {
  // expected-error @+1 {{'tensor.dequantize' expects integer elements of at most 32 bits, got tensor<2x8xi64>}}
  %y = tensor.dequantize %x, %s, %z : (tensor<2x8xi64>, tensor<f32>, tensor<i64>) -> tensor<2x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %s: tensor<f32>, %z: tensor<ui8>) {
  // expected-error @+1 {{'tensor.quantize' expects integers with a sign, got tensor<ui8>; convert what it gives}}
  %y = tensor.quantize %x, %s, %z {low = -8 : i64, high = 7 : i64} : (tensor<2x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<2x8xui8>
  func.return
}

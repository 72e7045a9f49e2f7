// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>) {
  // expected-error @+1 {{'ternary.matmul' expects trits as weight, got tensor<8x4xi8>}}
  %z = ternary.matmul %x, %w : tensor<2x8xf32>, tensor<8x4xi8> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x7xf32>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.matmul' expects equal inner dimensions, got 7 and 8}}
  %z = ternary.matmul %x, %w : tensor<2x7xf32>, tensor<8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi1>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.matmul' expects floats, integers or trits, got tensor<2x8xi1>}}
  %z = ternary.matmul %x, %w : tensor<2x8xi1>, tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.matmul' result 0 has type tensor<2x4xi8>, expected tensor<2x4xi32>}}
  %z = ternary.matmul %x, %w : tensor<2x8xi8>, tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %s: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.matmul' expects a scale of the input's float type, got tensor<4xf32> for tensor<2x8xi8>}}
  %z = ternary.matmul %x, %w scale(%s : tensor<4xf32>) : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4x!ternary.trit>, %s: tensor<3xf32>) {
  // expected-error @+1 {{'ternary.matmul' expects a scalar scale or one value a channel, got tensor<3xf32>}}
  %z = ternary.matmul %x, %w scale(%s : tensor<3xf32>) : tensor<2x8xf32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4x!ternary.trit>, %s: tensor<1xf32>) {
  // expected-error @+1 {{'ternary.matmul' expects a scalar scale or one value a channel, got tensor<1xf32>}}
  %z = ternary.matmul %x, %w scale(%s : tensor<1xf32>) : tensor<2x8xf32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<1x8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.linear' expects a weight of rank 2, got rank 3}}
  %y = ternary.linear %x, %w : tensor<2x8xf32>, tensor<1x8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4x!ternary.trit>, %b: tensor<5xf32>) {
  // expected-error @+1 {{'ternary.linear' expects bias of 4 elements, got tensor<5xf32>}}
  %y = ternary.linear %x, %w bias(%b : tensor<5xf32>) : tensor<2x8xf32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'ternary.linear' expects a bias of i32, got tensor<4xf32>}}
  %y = ternary.linear %x, %w bias(%b : tensor<4xf32>) : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.linear' expects activation one of none, relu, relu6, got 'tanh'}}
  %y = ternary.linear %x, %w {activation = "tanh"} : tensor<2x8xf32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.linear' expects float input for the activation 'relu6'; use requantisation bounds}}
  %y = ternary.linear %x, %w {activation = "relu6"} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %t: tensor<4x3xi32>, %s: tensor<i32>) {
  // expected-error @+1 {{'ternary.linear' expects thresholds or requantisation, got both}}
  %y = ternary.linear %x, %w thresholds(%t : tensor<4x3xi32>) shift(%s : tensor<i32>) :
      tensor<2x8xi8>, tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %t: tensor<4x3xi8>) {
  // expected-error @+1 {{'ternary.linear' expects thresholds of i32, got tensor<4x3xi8>}}
  %y = ternary.linear %x, %w thresholds(%t : tensor<4x3xi8>) : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %t: tensor<3x3xi32>) {
  // expected-error @+1 {{'ternary.linear' expects equal channels and rows of thresholds, got 4 and 3}}
  %y = ternary.linear %x, %w thresholds(%t : tensor<3x3xi32>) : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>) {
  // expected-error @+1 {{'ternary.linear' expects multiplier, shift, zero_point, low and high together}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>) {
  // expected-error @+1 {{'ternary.linear' expects multiplier, shift, zero_point, low and high together}}
  %y = ternary.linear %x, %w {low = 0 : i64, high = 9 : i64} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xf32>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'ternary.linear' expects input whose sums are i32 to requantise, got tensor<2x8xf32>}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) shift(%s : tensor<i32>)
      zero_point(%z : tensor<i8>) {low = 0 : i64, high = 9 : i64} : tensor<2x8xf32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i64>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'ternary.linear' expects an i32 multiplier, got tensor<i64>}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i64>) shift(%s : tensor<i32>)
      zero_point(%z : tensor<i8>) {low = 0 : i64, high = 9 : i64} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>, %s: tensor<3xi32>, %z: tensor<i8>) {
  // expected-error @+1 {{'ternary.linear' expects shift of 4 elements, got tensor<3xi32>}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) shift(%s : tensor<3xi32>)
      zero_point(%z : tensor<i8>) {low = 0 : i64, high = 9 : i64} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<4xi8>) {
  // expected-error @+1 {{'ternary.linear' expects a scalar zero point, got tensor<4xi8>}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) shift(%s : tensor<i32>)
      zero_point(%z : tensor<4xi8>) {low = 0 : i64, high = 9 : i64} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi8>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'ternary.linear' expects -128 <= low <= high <= 127, got 0 and 200}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) shift(%s : tensor<i32>)
      zero_point(%z : tensor<i8>) {low = 0 : i64, high = 200 : i64} : tensor<2x8xi8>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // expected-error @+1 {{'ternary.conv' expects trits as weight, got tensor<4x3x3x3xf32>}}
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : tensor<1x3x8x8xf32>,
      tensor<4x3x3x3xf32> -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x2x8x8xf32>, %w: tensor<4x3x3x3x!ternary.trit>) {
  // expected-error @+1 {{'ternary.conv' expects equal input channels, got 2 and 3}}
  %y = ternary.conv %x, %w {strides = array<i64: 1, 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : tensor<1x2x8x8xf32>,
      tensor<4x3x3x3x!ternary.trit> -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3x!ternary.trit>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'ternary.conv' expects bias of 4 elements, got tensor<3xf32>}}
  %y = ternary.conv %x, %w bias(%b : tensor<3xf32>) {strides =
      array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} :
      tensor<1x3x8x8xf32>, tensor<4x3x3x3x!ternary.trit> -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3x!ternary.trit>) {
  // expected-error @+1 {{'ternary.conv' expects 2 strides of at least 1, got [1]}}
  %y = ternary.conv %x, %w {strides = array<i64: 1>, padding =
      array<i64: 0, 0, 0, 0>, dilation = array<i64: 1, 1>} : tensor<1x3x8x8xf32>,
      tensor<4x3x3x3x!ternary.trit> -> tensor<1x4x6x6xf32>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xi64>, %w: tensor<8x4x!ternary.trit>, %m: tensor<i32>, %s: tensor<i32>, %z: tensor<i8>) {
  // expected-error @+1 {{'ternary.linear' expects input whose sums are i32 to requantise, got tensor<2x8xi64>}}
  %y = ternary.linear %x, %w multiplier(%m : tensor<i32>) shift(%s : tensor<i32>)
      zero_point(%z : tensor<i8>) {low = 0 : i64, high = 9 : i64} : tensor<2x8xi64>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi8>
  func.return
}

// -----

func.func @f(%x: tensor<2x8xui32>, %w: tensor<8x4x!ternary.trit>, %b: tensor<4xi32>) {
  // expected-error @+1 {{'ternary.linear' expects a bias of i64, got tensor<4xi32>}}
  %y = ternary.linear %x, %w bias(%b : tensor<4xi32>) : tensor<2x8xui32>,
      tensor<8x4x!ternary.trit> -> tensor<2x4xi32>
  func.return
}

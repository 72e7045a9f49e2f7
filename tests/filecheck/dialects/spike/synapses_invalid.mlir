// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<5x3xf32>) {
  // expected-error @+1 {{'spike.linear' expects equal inner dimensions, got 4 and 5}}
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<5x3xf32> -> tensor<8x?x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<4>, %w: tensor<4x3xf32>) {
  // expected-error @+1 {{'spike.linear' expects an input of rank 2 or more, time first, and a weight of rank 2, got ranks 1 and 2}}
  %i = spike.linear %s, %w : !spike.train<4>, tensor<4x3xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<4x3xi32>) {
  // expected-error @+1 {{'spike.linear' expects weights of floats, i8 or trits, got tensor<4x3xi32>}}
  %i = spike.linear %s, %w : !spike.train<8x?x4>, tensor<4x3xi32> -> tensor<8x?x3xi32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %w: tensor<4x3xi8>) {
  // expected-error @+1 {{'spike.linear' expects weights that fit graded spikes of f32, got tensor<4x3xi8>}}
  %i = spike.linear %x, %w : tensor<8x?x4xf32>, tensor<4x3xi8> -> tensor<8x?x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<4x3xf32>, %a: tensor<3xf64>) {
  // expected-error @+1 {{'spike.linear' expects a scale of floats that fit sums of f32, got tensor<3xf64>}}
  %i = spike.linear %s, %w scale(%a : tensor<3xf64>) : !spike.train<8x?x4>, tensor<4x3xf32> ->
      tensor<8x?x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<4x3xf32>, %a: tensor<4xf32>) {
  // expected-error @+1 {{'spike.linear' expects scale of 3 elements, got tensor<4xf32>}}
  %i = spike.linear %s, %w scale(%a : tensor<4xf32>) : !spike.train<8x?x4>, tensor<4x3xf32> ->
      tensor<8x?x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<4x3xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'spike.linear' expects bias of 3 elements, got tensor<4xf32>}}
  %i = spike.linear %s, %w bias(%b : tensor<4xf32>) : !spike.train<8x?x4>, tensor<4x3xf32> ->
      tensor<8x?x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<4x3xi8>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'spike.linear' expects a bias of i32, got tensor<3xf32>}}
  %i = spike.linear %s, %w bias(%b : tensor<3xf32>) : !spike.train<8x?x4>, tensor<4x3xi8> ->
      tensor<8x?x3xi32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %w: tensor<2x4x3x3xi8>) {
  // expected-error @+1 {{'spike.conv' expects an input [T, N, C, …] of rank 4 or 5, got !spike.train<8x?x4>}}
  %i = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation
      = array<i64: 1, 1>} : !spike.train<8x?x4>, tensor<2x4x3x3xi8> -> tensor<8x?x2x6x6xi32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4x6x6>, %w: tensor<2x5x3x3xi8>) {
  // expected-error @+1 {{'spike.conv' expects equal input channels, got 4 and 5}}
  %i = spike.conv %s, %w {strides = array<i64: 1, 1>, padding = array<i64: 1, 1, 1, 1>, dilation
      = array<i64: 1, 1>} : !spike.train<8x?x4x6x6>, tensor<2x5x3x3xi8> -> tensor<8x?x2x6x6xi32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4x6x6>) {
  // expected-error @+1 {{'spike.avg_pool' expects an input [T, N, C, …] of rank 4 or 5 and a kernel to match, got !spike.train<8x?x4x6x6>}}
  %y = spike.avg_pool %s {kernel = array<i64: 2>, strides = array<i64: 2>, padding = array<i64:
      0, 0>} : (!spike.train<8x?x4x6x6>) -> tensor<8x?x4x3x3xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4x6x6>) {
  // expected-error @+1 {{'spike.max_pool' expects padding of at most half the kernel, got [2, 0, 0, 0]}}
  %y = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 2, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> !spike.train<8x?x4x4x3>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4x6x6>) {
  // expected-error @+1 {{'spike.max_pool' expects 2 strides of at least 1, got [0, 2]}}
  %y = spike.max_pool %s {kernel = array<i64: 2, 2>, strides = array<i64: 0, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (!spike.train<8x?x4x6x6>) -> !spike.train<8x?x4x4x3>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4x6x6xf32>) {
  // expected-error @+1 {{'spike.max_pool' expects a spike train, got tensor<8x?x4x6x6xf32>}}
  %y = spike.max_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (tensor<8x?x4x6x6xf32>) -> !spike.train<8x?x4x3x3>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4x6x6xi32>) {
  // expected-error @+1 {{'spike.avg_pool' expects spikes or graded spikes of floats, got tensor<8x?x4x6x6xi32>}}
  %y = spike.avg_pool %x {kernel = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding =
      array<i64: 0, 0, 0, 0>} : (tensor<8x?x4x6x6xi32>) -> tensor<8x?x4x3x3xi32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>) {
  // expected-error @+1 {{'spike.delay' expects steps of at least 0, got -1}}
  %y = spike.delay %s {steps = -1 : i64} : (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %d: tensor<4xf32>) {
  // expected-error @+1 {{'spike.delay' expects delays of integers that broadcast to ?x4, got tensor<4xf32>}}
  %y = spike.delay %s delays(%d : tensor<4xf32>) {steps = 3 : i64} : (!spike.train<8x?x4>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>, %i: !spike.train<2x?x4>) {
  // expected-error @+1 {{'spike.delay' expects initial steps as !spike.train<3x?x4>, got !spike.train<2x?x4>}}
  %y = spike.delay %s initial(%i : !spike.train<2x?x4>) {steps = 3 : i64} :
      (!spike.train<8x?x4>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects kind one of shared, tdbn, got 'bntt'}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {kind = "bntt"} : (tensor<4x?x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects alpha and threshold with the kind 'tdbn' alone}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {threshold = 1.0 : f64} : (tensor<4x?x8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects a threshold with the kind 'tdbn'}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {kind = "tdbn"} : (tensor<4x?x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects the channels on another axis than time}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {axis = 0 : i64} : (tensor<4x?x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects axis in [-3, 3), got 3}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {axis = 3 : i64} : (tensor<4x?x8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x8xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects epsilon of at least 0, got -1.0}}
  %y = spike.batch_norm %x, %v, %v, %v, %v {epsilon = -1.0 : f64} : (tensor<4x?x8xf32>,
      tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x8xf32>
  func.return
}

// -----

func.func @f(%x: tensor<4x?x7xf32>, %v: tensor<8xf32>) {
  // expected-error @+1 {{'spike.batch_norm' expects scale of 7 elements, got tensor<8xf32>}}
  %y = spike.batch_norm %x, %v, %v, %v, %v : (tensor<4x?x7xf32>, tensor<8xf32>, tensor<8xf32>,
      tensor<8xf32>, tensor<8xf32>) -> tensor<4x?x7xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xi64>, %w: tensor<4x3x!ternary.trit>) {
  // expected-error @+1 {{'spike.linear' expects graded spikes of at most 32 bits, got tensor<8x?x4xi64>; convert them to i32}}
  %y = spike.linear %x, %w : tensor<8x?x4xi64>, tensor<4x3x!ternary.trit> -> tensor<8x?x3xi32>
  func.return
}

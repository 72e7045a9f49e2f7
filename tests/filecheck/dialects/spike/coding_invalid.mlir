// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects scheme one of rate, regular, latency, direct, delta, phase, got 'burst'}}
  %s = spike.encode %x {scheme = "burst", timesteps = 8 : i64} : (tensor<?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<4xi8>) {
  // expected-error @+1 {{'spike.encode' expects floats to encode by 'regular', got tensor<4xi8>}}
  %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64} : (tensor<4xi8>) ->
      !spike.train<8x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects at least 1 timesteps}}
  %s = spike.encode %x {scheme = "regular"} : (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects at least 1 timesteps}}
  %s = spike.encode %x {scheme = "regular", timesteps = 0 : i64} : (tensor<?x4xf32>) ->
      !spike.train<0x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects a seed of at least 0 with the scheme 'rate'}}
  %s = spike.encode %x {scheme = "rate", timesteps = 8 : i64} : (tensor<?x4xf32>) ->
      !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects a seed of at least 0 with the scheme 'rate'}}
  %s = spike.encode %x {scheme = "rate", timesteps = 8 : i64, seed = -1 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects seed with the scheme rate, got 'regular'}}
  %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64, seed = 1 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects period with the scheme latency or phase, got 'regular'}}
  %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64, period = 1 : i64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects threshold with the scheme latency or delta, got 'regular'}}
  %s = spike.encode %x {scheme = "regular", timesteps = 8 : i64, threshold = 1.0 : f64} :
      (tensor<?x4xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects a period of at most 31, got 40}}
  %s = spike.encode %x {scheme = "phase", timesteps = 40 : i64} : (tensor<?x4xf32>) ->
      !spike.train<40x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects a period of at least 1, got 0}}
  %s = spike.encode %x {scheme = "latency", timesteps = 4 : i64, period = 0 : i64} :
      (tensor<?x4xf32>) -> !spike.train<4x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects start of at least 0, and none with 'delta', got -1}}
  %s = spike.encode %x {scheme = "regular", timesteps = 4 : i64, start = -1 : i64} :
      (tensor<?x4xf32>) -> !spike.train<4x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects a threshold with the scheme 'delta'}}
  %s = spike.encode %x {scheme = "delta"} : (tensor<?x4xf32>) -> !spike.train<?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects timesteps with the scheme rate or regular or latency or direct or phase, got 'delta'}}
  %s = spike.encode %x {scheme = "delta", threshold = 1.0 : f64, timesteps = 4 : i64} :
      (tensor<?x4xf32>) -> !spike.train<?x4>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>, %p: tensor<?x5xf32>) {
  // expected-error @+1 {{'spike.encode' expects previous values as tensor<?x4xf32>, got tensor<?x5xf32>}}
  %s = spike.encode %x, %p {scheme = "delta", threshold = 0.5 : f64} : (tensor<8x?x4xf32>,
      tensor<?x5xf32>) -> !spike.train<8x?x4>
  func.return
}

// -----

func.func @f(%x: tensor<?x4xf32>, %p: tensor<?x4xf32>) {
  // expected-error @+1 {{'spike.encode' expects previous values with the scheme 'delta' alone}}
  %s = spike.encode %x, %p {scheme = "regular", timesteps = 4 : i64} : (tensor<?x4xf32>,
      tensor<?x4xf32>) -> !spike.train<4x?x4>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>) {
  // expected-error @+1 {{'spike.decode' expects scheme one of rate, first_spike, membrane, got 'mean'}}
  %y = spike.decode %s {scheme = "mean"} : (!spike.train<8x?x4>) -> tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.decode' expects a spike train for 'rate', got tensor<8x?x4xf32>}}
  %y = spike.decode %x {scheme = "rate"} : (tensor<8x?x4xf32>) -> tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>) {
  // expected-error @+1 {{'spike.decode' expects a trace of floats for 'membrane', got !spike.train<8x?x4>}}
  %y = spike.decode %s {scheme = "membrane", readout = "last"} : (!spike.train<8x?x4>) ->
      tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.decode' expects a readout with the scheme 'membrane', and only there}}
  %y = spike.decode %x {scheme = "membrane"} : (tensor<8x?x4xf32>) -> tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%x: tensor<8x?x4xf32>) {
  // expected-error @+1 {{'spike.decode' expects readout one of last, max, mean, got 'first'}}
  %y = spike.decode %x {scheme = "membrane", readout = "first"} : (tensor<8x?x4xf32>) ->
      tensor<?x4xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<0x4>) {
  // expected-error @+1 {{'spike.decode' expects at least one step, got !spike.train<0x4>}}
  %y = spike.decode %s {scheme = "rate"} : (!spike.train<0x4>) -> tensor<4xf32>
  func.return
}

// -----

func.func @f(%s: !spike.train<8x?x4>) {
  // expected-error @+1 {{'spike.to_tensor' expects f16, bf16, f32, f64, i1, i8, i16, i32 or i64, got tensor<8x?x4x!ternary.trit>}}
  %y = spike.to_tensor %s : (!spike.train<8x?x4>) -> tensor<8x?x4x!ternary.trit>
  func.return
}

// -----

func.func @f(%x: tensor<f32>) {
  // expected-error @+1 {{'spike.from_tensor' expects time first and rank 1 or more, got tensor<f32>}}
  %s = spike.from_tensor %x : (tensor<f32>) -> !spike.train<1>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %n: tensor<i32>) {
  // expected-error @+1 {{'spike.encode' expects elapsed as tensor<i64>, got tensor<i32>}}
  %s = spike.encode %x elapsed(%n : tensor<i32>) {scheme = "regular", timesteps = 4 : i64} :
      (tensor<4xf32>) -> !spike.train<4x4>
  func.return
}

// -----

func.func @f(%x: tensor<4xf32>, %n: tensor<i64>) {
  // expected-error @+1 {{'spike.encode' expects elapsed with the scheme rate or regular or latency or phase, got 'direct'}}
  %s = spike.encode %x elapsed(%n : tensor<i64>) {scheme = "direct", timesteps = 4 : i64} :
      (tensor<4xf32>) -> tensor<4x4xf32>
  func.return
}

// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%q: !spike.train<4x?x16x8>) {
  // expected-error @+1 {{'spike.attention' expects kind one of ssa, sdsa, got 'softmax'}}
  %o = spike.attention %q, %q, %q {kind = "softmax"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>) {
  // expected-error @+1 {{'spike.attention' expects heads that divide 8 channels, got 3}}
  %o = spike.attention %q, %q, %q {heads = 3 : i64} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>) {
  // expected-error @+1 {{'spike.attention' expects tau of at least 1 step, got 0.5}}
  %o = spike.attention %q, %q, %q {tau = 0.5 : f64} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>) {
  // expected-error @+1 {{'spike.attention' expects reset one of subtract, to_value, none, got 'zero'}}
  %o = spike.attention %q, %q, %q {reset = "zero"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>, %k: !spike.train<4x?x9x8>) {
  // expected-error @+1 {{'spike.attention' expects equal tokens of key and value, got 9 and 16}}
  %o = spike.attention %q, %k, %q : (!spike.train<4x?x16x8>, !spike.train<4x?x9x8>,
      !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>, %k: !spike.train<4x?x9x8>) {
  // expected-error @+1 {{'spike.attention' expects equal tokens, got 16 and 9}}
  %o = spike.attention %q, %k, %k {kind = "sdsa"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x9x8>, !spike.train<4x?x9x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>, %k: !spike.train<4x?x16x4>) {
  // expected-error @+1 {{'spike.attention' expects equal channels, got 8 and 4}}
  %o = spike.attention %q, %k, %q : (!spike.train<4x?x16x8>, !spike.train<4x?x16x4>,
      !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>, %k: !spike.train<5x?x16x8>) {
  // expected-error @+1 {{'spike.attention' expects equal steps, got 4 and 5}}
  %o = spike.attention %q, %k, %q : (!spike.train<4x?x16x8>, !spike.train<5x?x16x8>,
      !spike.train<4x?x16x8>) -> !spike.train<4x?x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x16x8>) {
  // expected-error @+1 {{'spike.attention' expects trains of rank 4, [T, N, tokens, channels]}}
  %o = spike.attention %q, %q, %q : (!spike.train<4x16x8>, !spike.train<4x16x8>,
      !spike.train<4x16x8>) -> !spike.train<4x16x8>
  func.return
}

// -----

func.func @f(%q: !spike.train<4x?x16x8>, %v: tensor<?x16x8xf32>) {
  // expected-error @+1 {{'spike.attention' expects the initial state as tensor<?x1x8xf32>, got tensor<?x16x8xf32>}}
  %o = spike.attention %q, %q, %q, %v {kind = "sdsa"} : (!spike.train<4x?x16x8>,
      !spike.train<4x?x16x8>, !spike.train<4x?x16x8>, tensor<?x16x8xf32>) ->
      !spike.train<4x?x16x8>
  func.return
}

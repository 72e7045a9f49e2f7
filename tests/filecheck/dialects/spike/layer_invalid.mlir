// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of a layer refuses, and what it says.

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.layer' expects a body of a synapse, a neuron and spike.yield, got spike.yield}}
  %y = spike.layer %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>):
    spike.yield %x : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{'spike.layer' expects the synapse's result as the input of 'spike.lif'}}
  %y = spike.layer %i, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> !spike.train<8x4> {
  ^bb0(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>):
    %c = spike.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = spike.lif %x {beta = 0.5 : f64} : (tensor<8x4xf32>) -> !spike.train<8x4>
    spike.yield %s : !spike.train<8x4>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{'spike.layer' expects to yield the results of 'spike.lif', all of them in order}}
  %y = spike.layer %i, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>):
    %c = spike.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = spike.lif %c {beta = 0.5 : f64} : (tensor<8x4xf32>) -> !spike.train<8x4>
    spike.yield %c : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{'spike.layer' expects a body of 2 arguments, got 3}}
  %y = spike.layer %i, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> !spike.train<8x4> {
  ^bb0(%x: tensor<8x4xf32>, %a: tensor<4x4xf32>, %more: tensor<4x4xf32>):
    %c = spike.linear %x, %a : tensor<8x4xf32>, tensor<4x4xf32> -> tensor<8x4xf32>
    %s = spike.lif %c {beta = 0.5 : f64} : (tensor<8x4xf32>) -> !spike.train<8x4>
    spike.yield %s : !spike.train<8x4>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %w: tensor<4x4xf32>) {
  // expected-error @+1 {{'spike.layer' expects argument 1 of the body as tensor<4x4xf32>, got tensor<4x5xf32>}}
  %y = spike.layer %i, %w : (tensor<8x4xf32>, tensor<4x4xf32>) -> !spike.train<8x5> {
  ^bb0(%x: tensor<8x4xf32>, %a: tensor<4x5xf32>):
    %c = spike.linear %x, %a : tensor<8x4xf32>, tensor<4x5xf32> -> tensor<8x5xf32>
    %s = spike.lif %c {beta = 0.5 : f64} : (tensor<8x5xf32>) -> !spike.train<8x5>
    spike.yield %s : !spike.train<8x5>
  }
  func.return
}

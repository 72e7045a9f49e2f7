// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects a body of 2 arguments, got 1}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>):
    spike.yield %x : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects argument 0 of the body as tensor<8x4xf32>, got tensor<8x5xf32>}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x5xf32> {
  ^bb0(%x: tensor<8x5xf32>, %last: tensor<8x5xf32>):
    spike.yield %x : tensor<8x5xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects the feedback of the body as tensor<8x4xf32>, got !spike.train<8x4>}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: !spike.train<8x4>):
    spike.yield %x : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' result 0 has type !spike.train<8x4>, expected tensor<8x4xf32>}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> !spike.train<8x4> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    spike.yield %x : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' has 1 results, expected 2}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    spike.yield %x, %x : tensor<8x4xf32>, tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects one initial step as tensor<1x4xf32>, got tensor<2x4xf32>}}
  %y = spike.recurrent %i initial(%b : tensor<2x4xf32>) : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    spike.yield %x : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects a body that ends in spike.yield with at least one value}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    "spike.yield"() : () -> ()
  }
  func.return
}

// -----

func.func @f(%n: index) {
  // expected-error @+1 {{'spike.recurrent' expects at least one input}}
  %y = spike.recurrent : () -> tensor<8x4xf32> {
  ^bb0(%last: tensor<8x4xf32>):
    spike.yield %last : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.recurrent' expects pure ops in its body, got 'tensor.empty'}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    %e = tensor.empty() : tensor<8x4xf32>
    spike.yield %e : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>, %w: tensor<8x4xf32>) {
  // expected-error @+1 {{Operation using value defined out of its IsolatedFromAbove parent}}
  %y = spike.recurrent %i : (tensor<8x4xf32>) -> tensor<8x4xf32> {
  ^bb0(%x: tensor<8x4xf32>, %last: tensor<8x4xf32>):
    spike.yield %w : tensor<8x4xf32>
  }
  func.return
}

// -----

func.func @f(%i: tensor<8x4xf32>) {
  // expected-error @+1 {{'spike.yield' ends the body of an op such as 'spike.recurrent', not that of 'func.func'}}
  spike.yield %i : tensor<8x4xf32>
}

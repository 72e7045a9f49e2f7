// RUN: triton-opt %s --split-input-file --verify-diagnostics

// expected-error@+2 {{'tensor.add' cannot broadcast shapes 2 and 3 together}}
func.func @shapes(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  %z = tensor.add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  func.return %z : tensor<2xf32>
}

// -----

func.func @unknown() {
  // expected-error-re@below {{Operation foo.{{b[a-z]+}} is not registered}}
  foo.bar
}

// -----

func.func @type(%x: !foo.t) { // expected-error {{unknown dialect 'foo'}}
  func.return
}

// -----

// Nothing expected, nothing reported.
func.func @right() {
  func.return
}

// RUN: triton-opt %s --verify-diagnostics --split-input-file
// What the verifier of these ops refuses, and what it says.

func.func @f(%x: tensor<i8>) {
  // expected-error @+1 {{'ternary.adder_graph' expects an operand of rank 1 or more, got tensor<i8>}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 0, 1>} : (tensor<i8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' expects equal last axis and inputs, got 2 and 3}}
  %y = ternary.adder_graph %x {inputs = 3 : i64, nodes = array<i64>, outputs =
      array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' expects four numbers a node and two an output}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64: 0, 1, 1>, outputs =
      array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' expects four numbers a node and two an output}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs = array<i64: 0>}
      : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' node 0 reads value 2, expected one below 2}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 2, 1, 0>, outputs = array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' node 1 reads value 3, expected one below 3}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 1, 1, 0, 3, 0, 1, 0>, outputs = array<i64: 0, 1>} : (tensor<?x2xi8>)
      -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' node 0 has sign 2 and shift 0, expected ±1 and 0 to 31}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 1, 2, 0>, outputs = array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' node 0 has sign 1 and shift 32, expected ±1 and 0 to 31}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes =
      array<i64: 0, 1, 1, 32>, outputs = array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' output (2, 1) is out of range for 2 values}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 2, 1>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' output (0, 2) is out of range for 2 values}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 0, 2>} : (tensor<?x2xi8>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi1>) {
  // expected-error @+1 {{'ternary.adder_graph' expects floats, integers or trits, got tensor<?x2xi1>}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 0, 1>} : (tensor<?x2xi1>) -> tensor<?x1xi32>
  func.return
}

// -----

func.func @f(%x: tensor<?x2xi8>) {
  // expected-error @+1 {{'ternary.adder_graph' result 0 has type tensor<?x2xi32>, expected tensor<?x1xi32>}}
  %y = ternary.adder_graph %x {inputs = 2 : i64, nodes = array<i64>, outputs =
      array<i64: 0, 1>} : (tensor<?x2xi8>) -> tensor<?x2xi32>
  func.return
}

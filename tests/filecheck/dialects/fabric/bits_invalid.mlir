// RUN: triton-opt %s --split-input-file --verify-diagnostics

func.func @no_such_place(%a: i4) {
  // expected-error @+1 {{expects an operand and a place in it for each bit of the result}}
  %y = fabric.bits %a {places = array<i64: 0, 4>} : (i4) -> i1
  func.return
}

// -----

func.func @no_such_operand(%a: i4) {
  // expected-error @+1 {{expects an operand and a place}}
  %y = fabric.bits %a {places = array<i64: 1, 0>} : (i4) -> i1
  func.return
}

// -----

func.func @fewer_bits_than_the_result(%a: i4) {
  // expected-error @+1 {{expects an operand and a place}}
  %y = fabric.bits %a {places = array<i64: 0, 0>} : (i4) -> i2
  func.return
}

// RUN: triton-opt %s --split-input-file --verify-diagnostics

func.func @no_site_before(%x: i6, %c: i1) {
  // expected-error @+1 {{a first site that is not linked}}
  %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>, tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 1>} : (i6, i1) -> i3
  func.return
}

// -----

func.func @inputs_of_one_site(%x: i6, %c: i1) {
  // expected-error @+1 {{expects an operand and a place in it for each of 12 inputs and a carry, and gives i4}}
  %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>, tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 0>} : (i6, i1) -> i4
  func.return
}

// -----

func.func @no_such_place(%x: i6, %c: i1) {
  // expected-error @+1 {{expects an operand and a place in it for each of 6 inputs and a carry, and gives i3}}
  %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 1>, tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 0>} : (i6, i1) -> i3
  func.return
}

// -----

func.func @a_flag_is_missing(%x: i12, %c: i1) {
  // expected-error @+1 {{for each site}}
  %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 1, 0>, tables = array<i64: 6, 6>, direct = array<i64: 0>, linked = array<i64: 0, 0>} : (i12, i1) -> i4
  func.return
}

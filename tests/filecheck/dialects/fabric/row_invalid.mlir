// RUN: triton-opt %s --split-input-file --verify-diagnostics

func.func @no_site_before(%x: i6, %c: i1) {
  // expected-error @+1 {{a first site that is not linked}}
  %y = fabric.row %x, %c {tables = array<i64: 6>, direct = array<i64: 0>, linked = array<i64: 1>} : (i6, i1) -> i3
  func.return
}

// -----

func.func @inputs_of_one_site(%x: i6, %c: i1) {
  // expected-error @+1 {{expects i12 and i1, and gives i4, for 2 sites; got i6, i1 and i4}}
  %y = fabric.row %x, %c {tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 0>} : (i6, i1) -> i4
  func.return
}

// -----

func.func @a_flag_is_missing(%x: i12, %c: i1) {
  // expected-error @+1 {{for each site}}
  %y = fabric.row %x, %c {tables = array<i64: 6, 6>, direct = array<i64: 0>, linked = array<i64: 0, 0>} : (i12, i1) -> i4
  func.return
}

// RUN: triton-opt %s | triton-opt --print-op-generic | triton-opt | filecheck %s

hw.module @pair(in %x : i12, in %c : i1, out y : i4) {
  %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 1, 0>, tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 1>} : (i12, i1) -> i4
  hw.output %y : i4
}
// CHECK: %y = fabric.row %x, %c {places = array<i64: 0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6, 0, 7, 0, 8, 0, 9, 0, 10, 0, 11, 1, 0>, tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 1>} : (i12, i1) -> i4

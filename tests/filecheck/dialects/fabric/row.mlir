// RUN: triton-opt %s | triton-opt --print-op-generic | triton-opt | filecheck %s

hw.module @pair(in %x : i12, in %c : i1, out y : i4) {
  %y = fabric.row %x, %c {tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 1>} : (i12, i1) -> i4
  hw.output %y : i4
}
// CHECK: %y = fabric.row %x, %c {tables = array<i64: 6, 6>, direct = array<i64: 0, 0>, linked = array<i64: 0, 1>} : (i12, i1) -> i4

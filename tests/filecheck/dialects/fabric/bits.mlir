// RUN: triton-opt %s | triton-opt --print-op-generic | triton-opt | filecheck %s

hw.module @pick(in %a : i4, in %b : i1, out y : i3) {
  %y = fabric.bits %a, %b {places = array<i64: 0, 3, 1, 0, 0, 1>} : (i4, i1) -> i3
  hw.output %y : i3
}
// CHECK: %y = fabric.bits %a, %b {places = array<i64: 0, 3, 1, 0, 0, 1>} : (i4, i1) -> i3

// RUN: triton-opt %s -p canonicalize,dce | filecheck %s
// RUN: triton-opt < %s | triton-opt | filecheck %s --check-prefix=KEPT
// RUN: not triton-opt %s -p no-such-pass 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not triton-opt %s.absent 2>&1 | filecheck %s --check-prefix=ABSENT

// The command as a process: its arguments, streams and exit codes.
func.func @unused(%x: i32) -> i32 {
  %dead = arith.addi %x, %x : i32
  func.return %x : i32
}

// CHECK: func.func @unused
// CHECK-NOT: arith.addi
// CHECK: func.return

// KEPT: arith.addi

// UNKNOWN-NOT: Traceback
// UNKNOWN: no-such-pass

// ABSENT-NOT: Traceback
// ABSENT: triton_opt.mlir.absent

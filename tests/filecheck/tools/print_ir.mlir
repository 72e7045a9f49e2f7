// RUN: triton-opt %s -p canonicalize,cse,dce --mlir-print-ir-after-change 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: triton-opt %s -p canonicalize,cse --mlir-print-ir-before-all 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: triton-opt %s -p canonicalize,cse --mlir-print-ir-after=cse 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: triton-opt %s -p canonicalize,cse --mlir-timing 2>&1 | filecheck %s --check-prefix=TIMING
// RUN: triton-opt %s -p canonicalize,cse --mlir-pass-statistics 2>&1 | filecheck %s --check-prefix=STATISTICS

func.func @unused(%x: i32) -> i32 {
  %dead = arith.addi %x, %x : i32
  func.return %x : i32
}

// CHANGE: // -----// IR Dump After CanonicalizePass (canonicalize) //----- //
// CHANGE-NOT: IR Dump

// BEFORE: // -----// IR Dump Before CanonicalizePass (canonicalize) //----- //
// BEFORE: arith.addi
// BEFORE: // -----// IR Dump Before {{.*}} (cse) //----- //

// AFTER-NOT: (canonicalize)
// AFTER: // -----// IR Dump After {{.*}} (cse) //----- //

// TIMING: Execution time report
// TIMING: Parser
// TIMING: canonicalize
// TIMING: cse
// TIMING: Output
// TIMING: Total

// STATISTICS: Pass statistics report
// STATISTICS: canonicalize
// STATISTICS-NEXT: (S) 4 ops before, 3 after (-1)
// STATISTICS-NEXT: (S) -1 arith.addi

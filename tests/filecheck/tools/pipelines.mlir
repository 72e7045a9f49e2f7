// RUN: triton-opt %s -p canonicalize,dce | filecheck %s
// RUN: triton-opt %s --pass-pipeline='builtin.module(func.func(canonicalize),dce)' | filecheck %s
// RUN: triton-opt %s -pass-pipeline='builtin.module( canonicalize , dce )' | filecheck %s
// RUN: triton-opt %s --canonicalize --dce | filecheck %s
// RUN: triton-opt %s -p 'canonicalize,test-constant-folding' --stop-after canonicalize | filecheck %s
// RUN: triton-opt %s -p 'fuse-linear{exact=true},cse' --dump-pass-pipeline 2>&1 | filecheck %s --check-prefix=DUMP
// RUN: not triton-opt %s -p canonicalise 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: not triton-opt %s -p 'fuse-linear{exat=true}' 2>&1 | filecheck %s --check-prefix=OPTION
// RUN: not triton-opt %s -p 'fuse-linear{exact=maybe}' 2>&1 | filecheck %s --check-prefix=VALUE
// RUN: not triton-opt %s -p 'builtin.module(cse' 2>&1 | filecheck %s --check-prefix=SYNTAX

func.func @unused(%x: i32) -> i32 {
  %dead = arith.addi %x, %x : i32
  func.return %x : i32
}

// CHECK: func.func @unused
// CHECK-NEXT: func.return

// DUMP: Pass Manager with 2 passes:
// DUMP-NEXT: builtin.module(fuse-linear{exact=true},cse)

// UNKNOWN: triton-opt: error: unknown pass 'canonicalise'; did you mean 'canonicalize'?
// OPTION: triton-opt: error: pass 'fuse-linear' has no option 'exat'; did you mean 'exact'?
// VALUE: triton-opt: error: option 'exact' of pass 'fuse-linear': expected true or false, got 'maybe'
// SYNTAX: triton-opt: error: pass pipeline, character 19: expected ')'
// SYNTAX-NEXT: builtin.module(cse
// SYNTAX-NEXT: ^

// RUN: not triton-opt %s -p 'cse,apply-pdl{pdl-file="absent.mlir"},dce' --pass-pipeline-crash-reproducer=%t 2>&1 | filecheck %s --check-prefix=ERROR
// RUN: filecheck %s < %t
// RUN: not triton-opt %t --run-reproducer 2>&1 | filecheck %s --check-prefix=AGAIN
// RUN: triton-opt %t | filecheck %s --check-prefix=READ

func.func @f(%x: i32) -> i32 {
  func.return %x : i32
}

// ERROR: triton-opt: note: reproducer: triton-opt {{.*}} --run-reproducer
// ERROR: triton-opt: error: pass 'apply-pdl'
// CHECK: "func.func"
// CHECK: external_resources: {
// CHECK-NEXT: mlir_reproducer: {
// CHECK-NEXT: pipeline: "builtin.module(apply-pdl{pdl-file=absent.mlir},dce)",
// AGAIN: triton-opt: error: pass 'apply-pdl'
// READ: func.func @f
// READ-NOT: mlir_reproducer

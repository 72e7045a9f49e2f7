// RUN: not triton-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK: :4: error: expected error "is not there" at line 6 was not produced
// expected-error@+2 {{is not there}}

func.func @right() {
  func.return
}

// -----

// CHECK: :13: error: unexpected error: Operation foo.bar is not registered
foo.bar

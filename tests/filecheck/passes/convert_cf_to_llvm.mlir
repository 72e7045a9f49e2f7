// RUN: triton-opt %s -p convert-cf-to-llvm --verify-roundtrip | filecheck %s

// CHECK-LABEL: @branches
func.func @branches(%c: i1, %x: i32, %y: i32) -> i32 {
  // CHECK-NEXT: llvm.cond_br %c, ^a(%x : i32), ^b(%y, %x : i32, i32)
  cf.cond_br %c, ^a(%x : i32), ^b(%y, %x : i32, i32)
^a(%p: i32):
  // CHECK: llvm.br ^b(%p, %p : i32, i32)
  cf.br ^b(%p, %p : i32, i32)
^b(%q: i32, %r: i32):
  // LLVM has one value for each block that leads to another.
  // CHECK: [[chosen:%.*]] = llvm.select %c, %q, %r : i1, i32
  // CHECK-NEXT: llvm.br ^d([[chosen]] : i32)
  cf.cond_br %c, ^d(%q : i32), ^d(%r : i32)
^d(%s: i32):
  func.return %s : i32
}

// CHECK-LABEL: @sizes
func.func @sizes(%n: index) -> index {
  // CHECK: [[n:%.*]] = builtin.unrealized_conversion_cast %n : index to i64
  // CHECK-NEXT: llvm.br ^a([[n]] : i64)
  cf.br ^a(%n : index)
// CHECK-NEXT: ^a(%m: i64):
^a(%m: index):
  // CHECK-NEXT: [[m:%.*]] = builtin.unrealized_conversion_cast %m : i64 to index
  // CHECK-NEXT: func.return [[m]] : index
  func.return %m : index
}

// CHECK-LABEL: @cases
func.func @cases(%flag: i32, %x: f32, %y: f32) -> f32 {
  // CHECK: [[first:%.*]] = llvm.icmp "eq" %flag, {{%.*}} : i32
  // CHECK-NEXT: llvm.cond_br [[first]], ^one, ^[[rest:.*]]
  // CHECK-NEXT: ^[[rest]]:
  // CHECK-NEXT: [[second:%.*]] = llvm.icmp "eq" %flag, {{%.*}} : i32
  // CHECK-NEXT: [[value:%.*]] = llvm.select [[second]], %y, %x : i1, f32
  // CHECK-NEXT: llvm.br ^end([[value]] : f32)
  cf.switch %flag : i32, [
    default: ^end(%x : f32),
    1: ^one,
    2: ^end(%y : f32)
  ]
^one:
  cf.br ^end(%y : f32)
^end(%r: f32):
  func.return %r : f32
}

// CHECK-LABEL: @checked
func.func @checked(%c: i1) {
  // CHECK-NEXT: llvm.cond_br %c, ^[[go:.*]], ^[[stop:.*]]
  // CHECK-NEXT: ^[[stop]]:
  // CHECK-NEXT: llvm.call_intrinsic "llvm.trap"() : () -> ()
  // CHECK-NEXT: llvm.unreachable
  // CHECK-NEXT: ^[[go]]:
  // CHECK-NEXT: func.return
  cf.assert %c, "sizes must agree"
  func.return
}

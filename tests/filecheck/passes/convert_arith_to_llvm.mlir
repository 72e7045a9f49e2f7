// RUN: triton-opt %s -p convert-arith-to-llvm --verify-roundtrip | filecheck %s

// CHECK-LABEL: @integers
func.func @integers(%x: i32, %y: i32, %v: vector<4xi32>) -> i1 {
  // CHECK: llvm.mlir.constant(7 : i32) : i32
  %c = arith.constant 7 : i32
  // CHECK-NEXT: %a = llvm.add %x, %c overflow<nsw> : i32
  %a = arith.addi %x, %c overflow<nsw> : i32
  // A constant divisor needs no care.
  // CHECK-NEXT: %d = llvm.sdiv %a, %c : i32
  %d = arith.divsi %a, %c : i32
  // CHECK-NEXT: llvm.icmp "eq" %y, {{%[0-9]+}} : i32
  // CHECK-NEXT: llvm.icmp "eq" %x, {{%[0-9]+}} : i32
  // CHECK: %r = llvm.srem %x, {{%[0-9]+}} : i32
  %r = arith.remsi %x, %y : i32
  // CHECK-NEXT: %m = llvm.call_intrinsic "llvm.smax.v4i32"(%v, %v) : (vector<4xi32>, vector<4xi32>) -> vector<4xi32>
  %m = arith.maxsi %v, %v : vector<4xi32>
  // CHECK-NEXT: %s = llvm.ashr %r, %d : i32
  %s = arith.shrsi %r, %d : i32
  // CHECK-NEXT: %t = llvm.icmp "ult" %s, %y : i32
  %t = arith.cmpi ult, %s, %y : i32
  // CHECK-NEXT: %w = llvm.sext %s : i32 to i64
  %w = arith.extsi %s : i32 to i64
  func.return %t : i1
}

// A size is 64 bits, and becomes one again for those who still need it.
// CHECK-LABEL: @sizes
func.func @sizes(%n: index) -> index {
  // CHECK: [[n:%[0-9]+]] = builtin.unrealized_conversion_cast %n : index to i64
  // CHECK-NEXT: %m = llvm.mul [[n]], {{%.*}} : i64
  // CHECK-NEXT: %k = llvm.add %m, {{%.*}} : i64
  // CHECK-NEXT: [[k:%.*]] = builtin.unrealized_conversion_cast %k : i64 to index
  // CHECK-NEXT: func.return [[k]] : index
  %c = arith.constant 3 : index
  %m = arith.muli %n, %c : index
  %k = arith.addi %m, %c : index
  func.return %k : index
}

// CHECK-LABEL: @floats
func.func @floats(%x: f32, %y: f32, %v: vector<8xf32>, %c: i1) -> f32 {
  // CHECK: %a = llvm.fadd %x, %y {fastmathFlags = #llvm.fastmath<contract>} : f32
  %a = arith.addf %x, %y fastmath<contract> : f32
  // CHECK-NEXT: %m = llvm.call_intrinsic "llvm.maximum.f32"(%a, %y) : (f32, f32) -> f32
  %m = arith.maximumf %a, %y : f32
  // CHECK-NEXT: %t = llvm.fcmp "une" %m, %x : f32
  %t = arith.cmpf une, %m, %x : f32
  // CHECK-NEXT: %s = llvm.select %t, %m, %x : i1, f32
  %s = arith.select %t, %m, %x : f32
  // CHECK-NEXT: %n = llvm.fneg %v : vector<8xf32>
  %n = arith.negf %v : vector<8xf32>
  // CHECK-NEXT: %i = llvm.call_intrinsic "llvm.fptosi.sat.i8.f32"(%s) : (f32) -> i8
  %i = arith.fptosi %s : f32 to i8
  // CHECK-NEXT: [[wide:%[0-9]+]] = llvm.zext %i : i8 to i32
  // CHECK-NEXT: %f = llvm.sitofp [[wide]] : i32 to f32
  %f = arith.uitofp %i : i8 to f32
  // CHECK: %l = llvm.fptrunc {{%.*}} : f64 to f32
  %d = arith.constant 1.5 : f64
  %l = arith.truncf %d : f64 to f32
  func.return %f : f32
}

// A bf16 is its bits; constants too.
// CHECK-LABEL: @brain_floats
func.func @brain_floats(%x: i16) -> f32 {
  // CHECK: %c = llvm.mlir.constant(dense<[16256, -16320]> : vector<2xi16>) : vector<2xi16>
  %c = arith.constant dense<[1.0, -3.0]> : vector<2xbf16>
  // CHECK-NEXT: [[bits:%[0-9]+]] = llvm.zext %x : i16 to i32
  // CHECK-NEXT: [[high:%[0-9]+]] = llvm.shl [[bits]], {{%[0-9]+}} : i32
  // CHECK-NEXT: %f = llvm.bitcast [[high]] : i32 to f32
  %b = arith.bitcast %x : i16 to bf16
  %f = arith.extf %b : bf16 to f32
  func.return %f : f32
}

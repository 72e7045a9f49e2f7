// RUN: triton-opt %s -p convert-func-to-llvm --verify-roundtrip | filecheck %s

// CHECK: llvm.func @outside(f64) -> f64
func.func private @outside(%x: f64) -> f64

// CHECK: llvm.func internal @nothing(%x: vector<4xi8>) {
// CHECK: llvm.return
func.func private @nothing(%x: vector<4xi8>) {
  func.return
}

// CHECK: llvm.func internal @two(%i: i32, %f: f32) -> !llvm.struct<(i32, f32)> {
func.func private @two(%i: i32, %f: f32) -> (i32, f32) {
  // CHECK-NEXT: [[none:%.*]] = llvm.mlir.undef : !llvm.struct<(i32, f32)>
  // CHECK-NEXT: [[one:%.*]] = llvm.insertvalue %i, [[none]][0] : !llvm.struct<(i32, f32)>
  // CHECK-NEXT: [[both:%.*]] = llvm.insertvalue %f, [[one]][1] : !llvm.struct<(i32, f32)>
  // CHECK-NEXT: llvm.return [[both]] : !llvm.struct<(i32, f32)>
  func.return %i, %f : i32, f32
}

// CHECK: llvm.func @calls(%p: !llvm.ptr {test.key = "w"}, %j: i32, %g: f32) -> f32
func.func @calls(%p: !llvm.ptr {test.key = "w"}, %j: i32, %g: f32) -> f32 {
  // CHECK-NEXT: [[both:%.*]] = llvm.call @two(%j, %g) : (i32, f32) -> !llvm.struct<(i32, f32)>
  // CHECK-NEXT: %a = llvm.extractvalue [[both]][0] : !llvm.struct<(i32, f32)>
  // CHECK-NEXT: %b = llvm.extractvalue [[both]][1] : !llvm.struct<(i32, f32)>
  %a, %b = func.call @two(%j, %g) : (i32, f32) -> (i32, f32)
  // CHECK-NEXT: llvm.return %b : f32
  func.return %b : f32
}

// CHECK: llvm.func @memory(%n: i64, %m: !llvm.ptr) -> i64
func.func @memory(%n: index, %m: !llvm.ptr) -> index {
  // CHECK-NEXT: llvm.getelementptr %m[1] : (!llvm.ptr) -> !llvm.ptr, i16
  %q = llvm.getelementptr %m[1] : (!llvm.ptr) -> !llvm.ptr, bf16
  // CHECK-NEXT: %v = llvm.load %q : !llvm.ptr -> i16
  %v = llvm.load %q : !llvm.ptr -> bf16
  // CHECK-NEXT: llvm.store %v, %m : i16, !llvm.ptr
  llvm.store %v, %m : bf16, !llvm.ptr
  // CHECK-NEXT: llvm.return %n : i64
  func.return %n : index
}
